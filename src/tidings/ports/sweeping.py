# SPDX-License-Identifier: Apache-2.0
"""Emptying what has expired. Reads never wait for it: they judge expiry themselves."""

from typing import Protocol

from tidings.model.ids import ChatId


class Sweeping(Protocol):
    """Small steps, each short enough not to hold up a writer.

    An engine that deletes by itself what has expired, in its own time, has nothing to do here.
    """

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        """Remove the content of some expired messages, never their entries.

        Returns (chat, sequence) of those emptied; fewer than `limit` means that none is left that
        the engine would not see to by itself.
        """
        ...

    async def forget_keys(self, now: int, limit: int) -> int:
        """Remove some idempotency keys that no longer count, and codes, counts and sessions that
        are over; returns how many."""
        ...

    async def forget_notifications(self, now: int, limit: int) -> int:
        """Remove some notifications, copies and contents of announcements that nobody is shown.

        Returns about how many; fewer than `limit` means that what is left can wait.
        """
        ...
