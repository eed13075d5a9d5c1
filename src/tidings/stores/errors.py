# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with any store when it is opened."""


class StoreRefused(Exception):
    """The store cannot be opened, and why; for the operator."""
