# SPDX-License-Identifier: Apache-2.0
"""Where the parts without I/O write down what must outlive the client."""

from typing import Protocol

from tidings_client.saved import Changes


class Notebook(Protocol):
    """Changes that somebody else brings to the storage."""

    changes: Changes

    def wake(self) -> None:
        """There is something new in it."""
        ...
