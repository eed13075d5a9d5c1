# SPDX-License-Identifier: Apache-2.0
"""The questions that fronts and owner ask each other, with the types of arguments and answers."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.actions.rate_limits import Outcome
from tidings.fronts.messages import LinkAnswer, LinkQuestion
from tidings.model import refusals
from tidings.model.chats import ChatHead, Unread
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal, StoreUnavailable, TooMany
from tidings.ports.log import Page
from tidings.ports.store import current_requester, set_requester

log = logging.getLogger("tidings.fronts")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_encode = msgspec.msgpack.Encoder().encode


class QuestionKind(Generic[T_co]):
    """A question with its subject, the types of its arguments, and the type of its answer."""

    def __init__(self, subject: str, takes: Any, gives: Any) -> None:  # noqa: ANN401 - types
        self.subject = subject
        self.decode_arguments = msgspec.msgpack.Decoder(takes).decode
        self.decode_value = msgspec.msgpack.Decoder(gives).decode

    def ask(self, number: int, *arguments: object) -> LinkQuestion:
        """Return the message that asks."""
        packed = msgspec.Raw(_encode(arguments))
        return LinkQuestion(number, self.subject, packed, current_requester())

    def value(self, answer: LinkAnswer) -> T_co:
        """Return the value in an answer.

        Raises:
            Refusal: The other side refused.
        """
        if answer.refusal:
            raise _refusal(answer)
        found: T_co = self.decode_value(answer.value)
        return found


# Fronts ask the owner.

AUTHENTICATE: Final = QuestionKind[UserCaller | None]("authenticate", tuple[str], UserCaller | None)
"""Whose token this is; None if it is valid, but not that of a user."""
CHARGE_CONNECT: Final = QuestionKind[int]("charge_connect", tuple[UserKey], int)
CHARGE_WRONG: Final = QuestionKind[Outcome | None](
    "charge_wrong", tuple[str | None], Outcome | None
)
CHARGE_READ: Final = QuestionKind[int]("charge_read", tuple[UserKey, int], int)
PLACE: Final = QuestionKind[bool]("place", tuple[int], bool)
"""Whether an opened connection is within the limit of its user."""
BLOCKED: Final = QuestionKind[list[str]]("blocked", tuple[UserKey], list[str])
CHATS: Final = QuestionKind[list[ChatHead]]("chats", tuple[UserKey], list[ChatHead])
CHAT_IDS: Final = QuestionKind[list[ChatId]]("chat_ids", tuple[UserKey], list[ChatId])
HEADS: Final = QuestionKind[dict[ChatId, int]]("heads", tuple[list[ChatId]], dict[ChatId, int])
ENTRIES: Final = QuestionKind[Page](
    "entries", tuple[UserKey, ChatId, int | None, int | None, int], Page
)
MARK: Final = QuestionKind[None]("mark", tuple[UserKey, ChatId, int, int], None)
TELL_ERASURES: Final = QuestionKind[None]("tell_erasures", tuple[int, int, str | None], None)
GREET_INBOXES: Final = QuestionKind[None]("greet_inboxes", tuple[int, dict[str, str | None]], None)
SEND_PRESENCE: Final = QuestionKind[None]("send_presence", tuple[int], None)
COUNT_HEADS: Final = QuestionKind[dict[ChatId, Unread]](
    "count_heads", tuple[list[ChatHead]], dict[ChatId, Unread]
)
COUNT_CHAT: Final = QuestionKind[tuple[Unread, int] | None](
    "count_chat", tuple[UserKey, ChatId], tuple[Unread, int] | None
)
COUNT_INBOXES: Final = QuestionKind[dict[str, Unread]](
    "count_inboxes", tuple[UserKey], dict[str, Unread]
)
COUNT_INBOX: Final = QuestionKind[Unread]("count_inbox", tuple[UserKey, str], Unread)

# The owner asks fronts.

IDLE: Final = QuestionKind[list[tuple[int, int]]](
    "idle", tuple[UserKey, str], list[tuple[int, int]]
)
"""Idle connections of a device, each with the time of its last use."""
DRAINED: Final = QuestionKind[None]("drained", tuple[int], None)
REACHED: Final = QuestionKind[int]("reached", tuple[UserKey, ChatId, bool], int)
"""The last entry of a chat that a device took at which somebody looks."""
SHUT: Final = QuestionKind[None]("shut", tuple[float], None)
"""Close all connections, spread over this many seconds."""
METRICS: Final = QuestionKind[bytes]("metrics", tuple[()], bytes)
GATEWAY: Final = QuestionKind[bytes]("gateway", tuple[str, bytes], bytes)
"""A question of the operator about what a gateway has in memory."""


Answering = Mapping[str, tuple[QuestionKind[Any], Callable[..., Any]]]
"""For each subject, its question and the function that answers it, which may be a coroutine."""


def answering(*pairs: tuple[QuestionKind[Any], Callable[..., Any]]) -> Answering:
    """Return the answers by subject."""
    return {question.subject: (question, answer) for question, answer in pairs}


async def answer_to(ask: LinkQuestion, answers: Answering) -> LinkAnswer:
    """Return the answer to a question; runs in a task of its own."""
    set_requester(ask.requester)
    question, answer = answers[ask.subject]
    try:
        found = answer(*question.decode_arguments(ask.arguments))
        if inspect.isawaitable(found):
            found = await _awaited(found)
    except Refusal as refusal:
        wait_ms = refusal.retry_after_ms if isinstance(refusal, TooMany) else 0
        return LinkAnswer(
            ask.number, refusal=type(refusal).__name__, detail=refusal.detail, wait_ms=wait_ms
        )
    except Exception:
        # The other process waits for an answer, whatever happens here.
        about = {"action": "question_failed", "subject": ask.subject}
        log.exception("a question of another process failed", extra=about)
        return LinkAnswer(ask.number, refusal=StoreUnavailable.__name__)
    return LinkAnswer(ask.number, msgspec.Raw(_encode(found)))


async def _awaited(found: Awaitable[T]) -> T:
    return await found


def _refusal(answer: LinkAnswer) -> Refusal:
    kind = vars(refusals).get(answer.refusal, StoreUnavailable)
    if issubclass(kind, TooMany):
        refused: Refusal = kind(answer.detail, retry_after_ms=answer.wait_ms)
    else:
        refused = kind(answer.detail)
    return refused
