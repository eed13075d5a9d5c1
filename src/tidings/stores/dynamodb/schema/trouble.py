# SPDX-License-Identifier: Apache-2.0
"""What can be wrong between the declared tables and an endpoint."""


class SchemaRefused(Exception):
    """The endpoint would not do it, and why; for the operator."""
