# SPDX-License-Identifier: Apache-2.0
"""What the store says by itself about what was written: the relay's second opinion."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import ChatId


class Written(msgspec.Struct, frozen=True):
    """An entry stands at this place."""

    chat: ChatId
    sequence: int
    at: int
    """When, by the store's clock, about."""


class Cleaned(msgspec.Struct, frozen=True):
    """The content that a message at this place had for a while is deleted."""

    chat: ChatId
    sequence: int


Change = Written | Cleaned


class Changes(Protocol):
    """Every change of the last day, at least once after a start, in any order."""

    async def poll(self) -> Sequence[Change]:
        """Some changes not told yet; none if there are no more at the moment.

        Raises:
            StoreUnavailable: Try again later; nothing is passed over.
        """
        ...
