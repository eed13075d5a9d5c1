# SPDX-License-Identifier: Apache-2.0
"""The REST API: one file per resource, thin handlers, refusals as `problem+json`."""
