# SPDX-License-Identifier: Apache-2.0
"""Errors for the operator: the store cannot be opened, or its tables are not as declared."""


class StoreRefused(Exception):
    """The store cannot be opened; the text gives the operator the reason."""


class SchemaRefused(Exception):
    """The endpoint would not do it, and why; for the operator."""
