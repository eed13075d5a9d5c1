# SPDX-License-Identifier: Apache-2.0
"""Removes the content of erased authors from events before the application gets them. No I/O."""

import hmac
from datetime import datetime
from functools import lru_cache, partial
from typing import Final, TypeVar

from msgspec.structs import replace

from tidings_client.events import ContentErased, Edited, Event, Message
from tidings_client.frames import ErasedFrame

AUTHORS_MAX: Final = 5_000
"""Number of erased authors that are cached, because their older content may still arrive."""
DIGEST_BYTES: Final = 8

AnyEvent = TypeVar("AnyEvent", bound=Event)


class Erasures:
    """The erased authors that the server has reported, and `n` of its last report."""

    def __init__(self, place: int | None) -> None:
        self.place = place or 0
        """`n` of the last frame."""
        self._authors: dict[bytes, dict[str, datetime]] = {}
        """For each salt, the digests of erased authors with the time up to which they are
        erased."""

    def take(self, frame: ErasedFrame) -> ContentErased | None:
        """Record what a frame reports; return the event for it, if anything was erased."""
        self.place = frame.n
        if not frame.all and not frame.authors:
            return None
        if frame.all:
            return ContentErased(all=True, covers=lambda _sender, _created_at: True)
        salt = bytes.fromhex(frame.salt)
        authors = {one.digest: one.before for one in frame.authors}
        self._remember(salt, authors)
        return ContentErased(all=False, covers=partial(_covers, salt, authors))

    def shown(self, event: AnyEvent) -> AnyEvent:
        """Return the event; if its content is erased, return it without the content."""
        if not isinstance(event, Message | Edited) or event.content is None:
            return event
        for salt, authors in self._authors.items():
            if _covers(salt, authors, event.sender, event.created_at):
                return _without_content(event)
        return event

    def _remember(self, salt: bytes, authors: dict[str, datetime]) -> None:
        self._authors[salt] = self._authors.pop(salt, {}) | authors
        while sum(map(len, self._authors.values())) > AUTHORS_MAX:
            oldest, known = next(iter(self._authors.items()))
            del known[next(iter(known))]
            if not known:
                del self._authors[oldest]


def _without_content(event: AnyEvent) -> AnyEvent:
    if isinstance(event, Message):
        return replace(event, content=None, gone="erased")
    return replace(event, content=None)


def _covers(salt: bytes, authors: dict[str, datetime], sender: str, created_at: datetime) -> bool:
    before = authors.get(digest(salt, sender))
    return before is not None and created_at <= before


@lru_cache(10_000)
def digest(salt: bytes, sender: str) -> str:
    """Return the digest by which a frame names an author."""
    return hmac.digest(salt, sender.encode(), "sha256")[:DIGEST_BYTES].hex()
