# SPDX-License-Identifier: Apache-2.0
"""Knows which chats a client follows, and which inboxes it names in hello. No I/O.

By default a client follows all chats of its user. With `catch_up="heads"` it gets the last sequence
of each chat, and entries only of the chats that the application chooses.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidings_client.frames import Away, ClientFrame, Follow, Hello, NotificationFrame

AGAIN_SECONDS: Final = 0.5
"""How long to wait before a refused request to follow a chat is sent again."""
_NAME: Final = "follow:"


class Selection:
    """The choices of an application, which outlive connections."""

    def __init__(
        self,
        client: str | None = None,
        *,
        is_by_heads: bool = False,
        chats: Iterable[str] = (),
        inboxes: Iterable[str] = (),
        totals: bool = False,
    ) -> None:
        """Set up the choices; `client` is the program's name and version, `chats` are followed."""
        self.is_by_heads = is_by_heads
        self.is_away = False
        self._totals = totals
        self.named: set[str] = set()
        """Chats of which the server has sent the head on this connection."""
        self._client = client
        self._chats = dict.fromkeys(chats)
        self._inboxes: dict[str, str | None] = dict.fromkeys(inboxes)
        """The newest notification of each inbox that has arrived, or None."""
        self._refused: dict[str, float] = {}
        """Chats whose `follow` the server refused for now, with the time of the next attempt."""

    def __contains__(self, chat: str) -> bool:
        return not self.is_by_heads or chat in self._chats

    def hello(
        self,
        token: str,
        device: str | None,
        epoch: str | None,
        have: dict[str, int] | None,
        erasures: int,
    ) -> Hello:
        """Return the first frame of a connection."""
        self.named.clear()
        self._refused.clear()
        catch_up = "heads" if self.is_by_heads else None
        inboxes = dict(self._inboxes) or None
        return Hello(
            token, device, epoch, have, erasures, self._client, catch_up, inboxes, self._totals
        )

    def welcome(self, have: Mapping[str, int]) -> Iterator[ClientFrame]:
        """Yield the frames that repeat the choices on a new connection."""
        if self.is_away:
            yield Away(True)
        for chat in self._chats if self.is_by_heads else ():
            yield self.frame(chat, have)

    def frame(self, chat: str, have: Mapping[str, int]) -> Follow:
        """Return the request to follow a chat."""
        return Follow(chat, have.get(chat), f"{_NAME}{chat}")

    def add(self, chat: str) -> bool:
        """Choose a chat; return False if the chat was chosen already."""
        if chat in self:
            return False
        self._chats[chat] = None
        return True

    def drop(self, chat: str) -> None:
        """Forget a chat that is gone."""
        self._chats.pop(chat, None)
        self.named.discard(chat)

    def saw(self, frame: NotificationFrame) -> None:
        """Record the newest notification of an inbox."""
        if frame.inbox in self._inboxes:
            self._inboxes[frame.inbox] = frame.id

    def refused(self, request: str | None, retry_after_ms: int | None, now: float) -> None:
        """Record that the server refused, for now, a request to follow a chat."""
        if request is not None and request.startswith(_NAME):
            wait = max(AGAIN_SECONDS, (retry_after_ms or 0) / 1_000)
            self._refused[request.removeprefix(_NAME)] = now + wait

    def due(self, now: float) -> list[str]:
        """Return the chats to request again."""
        chats = [chat for chat, at in self._refused.items() if at <= now]
        for chat in chats:
            del self._refused[chat]
        return [chat for chat in chats if chat in self._chats]
