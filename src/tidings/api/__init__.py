# SPDX-License-Identifier: Apache-2.0
"""The REST API: one file per resource, short handlers, and refusals as `problem+json`."""
