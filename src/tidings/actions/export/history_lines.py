# SPDX-License-Identifier: Apache-2.0
"""The lines of a history from another system, and the rules that they must follow.

A history has users, chats and messages, one JSON object per line. The line of a user precedes the
lines of the user's chats. The line of a chat precedes the lines of its messages, which are in the
order of time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from tidings.actions.chat.chats import check_chat
from tidings.actions.chat.members import check_name
from tidings.actions.chat.message_checks import check_content, check_message_fields
from tidings.actions.identity.users import check_user_id
from tidings.model.chats import ChatType
from tidings.model.entries import Poster
from tidings.model.ids import TENANT_ITSELF, UserKey, from_rfc3339, user_key
from tidings.model.refusals import Invalid, Refusal

VERSION: Final = 1
BAD_LINES_MAX: Final = 20
"""Number of bad lines after which the check stops."""
ID_CHARS_MAX: Final = 200


class HistoryStart(
    msgspec.Struct, tag_field="kind", tag="tidings-history", forbid_unknown_fields=True
):
    """The first line, with the version of the format."""

    version: int


class HistoryUser(msgspec.Struct, tag_field="kind", tag="user", forbid_unknown_fields=True):
    """A user, with the id that the user will have."""

    id: str
    created_at: str
    display_name: str | None = None


class HistoryChat(msgspec.Struct, tag_field="kind", tag="chat", forbid_unknown_fields=True):
    """A chat; `id` is any name that the messages refer to. The first member is the owner."""

    id: str
    type: ChatType
    members: list[str]
    created_at: str
    name: str | None = None


class HistoryMessage(msgspec.Struct, tag_field="kind", tag="message", forbid_unknown_fields=True):
    """A message; `id` becomes its `client_message_id`. The sender `~tenant` is the tenant
    itself."""

    chat: str
    id: str
    sender: str
    created_at: str
    content: str
    content_type: str = "text/plain"
    posted_by: Poster | None = None


HistoryLine = HistoryStart | HistoryUser | HistoryChat | HistoryMessage
Item = HistoryUser | HistoryChat | HistoryMessage

_decode: Callable[[bytes], HistoryLine] = msgspec.json.Decoder(HistoryLine).decode


class BadLine(Exception):
    """A line breaks a rule; the text gives its number and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")


class BadHistory(Exception):
    """The bad lines of a history, at most `BAD_LINES_MAX` of them."""

    def __init__(self, lines: list[BadLine]) -> None:
        super().__init__("\n".join(map(str, lines)))
        self.lines = lines


class _KnownChat(msgspec.Struct):
    members: frozenset[str]
    last: int
    """Time of the chat's last message, or of its creation if it has no message."""


class HistoryReader:
    """Reads the lines of a history, one after the other, and checks each of them."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._users: set[str] = set()
        self._chats: dict[str, _KnownChat] = {}

    def items(self, lines: Iterable[bytes]) -> Iterator[tuple[int, Item | BadLine]]:
        """Yield the number of each line after the first, with the decoded line or with its
        mistake."""
        for number, line in enumerate(lines, 1):
            try:
                found = self._read(number, line)
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
                yield number, BadLine(number, str(error))
            except Refusal as refusal:
                yield number, BadLine(number, refusal.detail)
            else:
                if not isinstance(found, HistoryStart):
                    yield number, found

    def _read(self, number: int, line: bytes) -> HistoryLine:
        found = _decode(line)
        if isinstance(found, HistoryStart) != (number == 1):
            raise Invalid("the first line, and only the first, has the kind tidings-history")
        match found:
            case HistoryStart():
                if found.version != VERSION:
                    raise Invalid(f"this version of Tidings reads version {VERSION} of the format")
            case HistoryUser():
                self._check_user(found)
            case HistoryChat():
                self._check_chat(found)
            case _:
                self._check_message(found)
        return found

    def _check_user(self, user: HistoryUser) -> None:
        check_user_id(user.id)
        if user.display_name is not None:
            check_name(user.display_name)
        self._time(user.created_at)
        self._users.add(user.id)

    def _check_chat(self, chat: HistoryChat) -> None:
        if not 0 < len(chat.id) <= ID_CHARS_MAX:
            raise Invalid(f"id must have 1 to {ID_CHARS_MAX} characters")
        if chat.id in self._chats:
            raise Invalid(f"there is a chat {chat.id} already")
        unknown = [user for user in chat.members if user not in self._users]
        if not chat.members or unknown:
            raise Invalid(f"no line before names the user {', '.join(unknown) or '(nobody)'}")
        if len(set(chat.members)) < len(chat.members):
            raise Invalid("a member is named twice")
        check_chat(chat.type, chat.name, keys_of("tenant", chat.members[1:]))
        created_at = self._time(chat.created_at)
        self._chats[chat.id] = _KnownChat(frozenset(chat.members), created_at)

    def _check_message(self, message: HistoryMessage) -> None:
        chat = self._chats.get(message.chat)
        if chat is None:
            raise Invalid(f"no line before names the chat {message.chat}")
        if message.sender == TENANT_ITSELF:
            if message.posted_by is None:
                raise Invalid(f"a message of {TENANT_ITSELF} must have posted_by tenant")
        elif message.sender not in chat.members:
            raise Invalid(f"{message.sender} is not a member of {message.chat}")
        check_message_fields(message.id, message.content_type, None)
        check_content(message.content)
        at = self._time(message.created_at)
        if at < chat.last:
            raise Invalid("it is older than the line before it in the same chat")
        chat.last = at

    def _time(self, text: str) -> int:
        at = from_rfc3339(text)
        if at > self._now:
            raise Invalid(f"{text} is in the future")
        return at


def keys_of(tenant: str, users: Iterable[str]) -> list[UserKey]:
    """Return the user keys of these ids in the tenant."""
    return [user_key(tenant, user) for user in users]


def check_history(
    lines: Iterable[bytes], now: int
) -> dict[Literal["user", "chat", "message"], int]:
    """Check all lines; return how many there are of each kind.

    Raises:
        BadHistory: Some lines break a rule.
    """
    counts: dict[Literal["user", "chat", "message"], int] = {"user": 0, "chat": 0, "message": 0}
    bad: list[BadLine] = []
    for _, item in HistoryReader(now).items(lines):
        match item:
            case BadLine():
                bad.append(item)
                if len(bad) >= BAD_LINES_MAX:
                    break
            case HistoryUser():
                counts["user"] += 1
            case HistoryChat():
                counts["chat"] += 1
            case _:
                counts["message"] += 1
    if bad:
        raise BadHistory(bad)
    return counts
