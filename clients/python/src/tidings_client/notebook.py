# SPDX-License-Identifier: Apache-2.0
"""Interface through which the parts without I/O record state that must be saved."""

from typing import Protocol

from tidings_client.saved import Changes


class Notebook(Protocol):
    """Changes of the state, which its owner saves in the storage."""

    changes: Changes

    def wake(self) -> None:
        """Report that `changes` has something to save."""
        ...
