# SPDX-License-Identifier: Apache-2.0
"""The total of everything that a user has not read, over chats and inboxes."""

from collections.abc import Iterable, Mapping

import msgspec

from tidings.model.chats import Unread


class UnreadTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a user has not read."""

    chats: int
    """Number of chats with unread messages."""
    messages: int
    mentions: int = 0
    inboxes: dict[str, int]
    exact: bool

    @property
    def total(self) -> int:
        """Number of messages and notifications. Mentions are messages, so they are not added."""
        return self.messages + sum(self.inboxes.values())


def total_of(chats: Iterable[Unread], inboxes: Mapping[str, Unread]) -> UnreadTotal:
    """Add up the unread counts of a user's chats and inboxes."""
    unread = [one for one in chats if one.count > 0]
    counts = [*unread, *inboxes.values()]
    return UnreadTotal(
        chats=len(unread),
        messages=sum(one.count for one in unread),
        mentions=sum(one.mentions for one in unread),
        inboxes={name: one.count for name, one in inboxes.items()},
        exact=all(one.exact for one in counts),
    )
