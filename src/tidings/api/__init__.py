# SPDX-License-Identifier: Apache-2.0
"""REST: one file per resource, thin handlers, refusals as problem+json."""
