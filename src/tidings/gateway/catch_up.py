# SPDX-License-Identifier: Apache-2.0
"""What a device gets at hello: complete, or `resync`, or `gone`; never a part in silence."""

from collections.abc import Mapping, Sequence

import msgspec

from tidings.model import limits
from tidings.model.chat_list import Held
from tidings.model.ids import ChatId


class Plan(msgspec.Struct, frozen=True):
    """Where each chat starts for a device."""

    gone: list[ChatId]
    """Chats the device holds and its user is not in."""
    resync: list[Held]
    """Chats in which too much is missing, or what is held cannot be continued."""
    follow: list[tuple[Held, int]]
    """Chats with the last entry the device has; all after it are sent, in this order."""


def plan(held: Sequence[Held], have: Mapping[str, int], *, is_same_epoch: bool) -> Plan:
    """Decide for each chat, newest activity first, within the bounds of one hello."""
    present = {row.chat_id for row in held}
    gone = [ChatId(chat) for chat in have if chat not in present]
    resync: list[Held] = []
    follow: list[tuple[Held, int]] = []
    budget = limits.CATCH_UP_HELLO_ENTRIES_MAX
    for row in held:
        start = _start(row, have, is_same_epoch=is_same_epoch)
        missing = None if start is None else row.head.sequence - start
        if start is None or missing is None or missing > budget:
            resync.append(row)
        else:
            follow.append((row, start))
            budget -= missing
    return Plan(gone, resync, follow)


def _start(row: Held, have: Mapping[str, int], *, is_same_epoch: bool) -> int | None:
    """The last entry the device has or need not have; None if it has to start over."""
    head = row.head.sequence
    if row.chat_id not in have:
        return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)
    held = have[row.chat_id]
    if not is_same_epoch or not 0 <= head - held <= limits.CATCH_UP_CHAT_ENTRIES_MAX:
        return None
    return held
