# SPDX-License-Identifier: Apache-2.0
"""The error that every engine raises when its store cannot be opened."""


class StoreRefused(Exception):
    """The store cannot be opened; the text gives the operator the reason."""
