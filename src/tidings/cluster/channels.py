# SPDX-License-Identifier: Apache-2.0
"""Redis channels between processes: the messages on them, and a subscription that reconnects."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import msgspec
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as Disconnected

from tidings.cluster.redis_link import TROUBLE, RedisLink, raise_swallowed_cancellation
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.delivery import EncodedEntry
from tidings.tasks import Tasks

log = logging.getLogger("tidings.registry")

QUIET_SECONDS: Final = 1.0
"""If no message arrives for this many seconds, Redis is pinged."""
SILENT_TURNS_MAX: Final = 3
AGAIN_SECONDS: Final = 0.25


class Entries(msgspec.Struct, tag="entries", frozen=True):
    """Message to a gateway: entries of one chat for some users."""

    request: int
    reply_to: str
    """Channel for the answer."""
    encoded_entries: tuple[EncodedEntry, ...]
    users: tuple[UserKey, ...]


class HandedOver(msgspec.Struct, tag="held", frozen=True):
    """Answer from a gateway: the connections to which it passed the entries."""

    request: int
    gateway: str
    connections: frozenset[str]


class Notice(msgspec.Struct, tag="notice", frozen=True):
    """Message to a gateway: a frame that has no sequence."""

    frame: bytes
    users: tuple[UserKey, ...]
    chat: ChatId | None = None


class Compare(msgspec.Struct, tag="compare", frozen=True):
    """Message that asks all gateways to compare heads, because entries may not have reached
    them."""


class Hint(msgspec.Struct, tag="hint", frozen=True):
    """Message to one gateway, or to all but one: an inbox event has happened."""

    event: InboxEvent
    but_not: str
    """Gateway that knows of the event already, and ignores this message."""


class GatewayQuestion(msgspec.Struct, tag="question", frozen=True):
    """Message to one gateway or to all: a question about what the gateway has in memory."""

    request: int
    reply_to: str
    """Channel for the answer."""
    subject: str
    """What the question is about. A gateway that does not know the subject does not answer."""
    asked: bytes


class GatewayAnswer(msgspec.Struct, tag="answer", frozen=True):
    """Answer of a gateway to a question."""

    request: int
    gateway: str
    answer: bytes


HandoverMessage = Entries | HandedOver | Notice | Compare | Hint | GatewayQuestion | GatewayAnswer

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HandoverMessage).decode


class NotAHandoverMessage(Exception):
    """The bytes are not a handover message."""


def decode(data: bytes) -> HandoverMessage:
    """Decode a message from a channel.

    Raises:
        NotAHandoverMessage: The bytes are not a message, or only a newer version knows the message.
    """
    try:
        message: HandoverMessage = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAHandoverMessage(str(error)) from None
    return message


class Subscription:
    """Receives the messages of some channels, and decrypts and decodes them."""

    def __init__(
        self,
        link: RedisLink,
        channels: tuple[str, ...],
        take: Callable[[HandoverMessage], None],
        came_up: Callable[[], None] = lambda: None,
        *,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """Set up a subscription that passes each message to `take`.

        `came_up` is called each time the subscription has started. Messages sent before that are
        lost.
        """
        self._link = link
        self._channels = channels
        self._take = take
        self._came_up = came_up
        self._quiet_seconds = quiet_seconds
        self._tasks = Tasks("registry")
        self._up = asyncio.Event()

    def start(self) -> None:
        """Start to receive messages; subscribe again after each failure."""
        self._tasks.repeat(self._receive)

    async def up(self) -> None:
        """Wait until all channels are subscribed."""
        await self._up.wait()

    async def close(self) -> None:
        """Unsubscribe and stop."""
        await self._tasks.close()

    async def _receive(self) -> None:
        """Subscribe, and pass on messages until the subscription breaks."""
        try:
            async with aclosing(await self._link.pubsub()) as pubsub:
                await self._listen(pubsub)
        except TROUBLE as trouble:
            self._link.failures += 1
            extra = {"action": "subscription_broke", "error": str(trouble)}
            log.debug("subscription broke", extra=extra)
        finally:
            self._up.clear()
        raise_swallowed_cancellation()
        await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self, pubsub: PubSub) -> None:
        """Pass on messages until the connection breaks or Redis no longer answers."""
        await pubsub.subscribe(*self._channels)
        missing, silent = set(self._channels), 0
        while True:
            raise_swallowed_cancellation()
            message = await pubsub.get_message(timeout=self._quiet_seconds)
            if message is None:
                silent += 1
                if silent > SILENT_TURNS_MAX:
                    raise Disconnected("silent for too long")
                await pubsub.ping()
                continue
            silent = 0
            if message["type"] == "message":
                self._hand_on(message["channel"].decode(), message["data"])
            elif message["type"] == "subscribe" and missing:
                missing.discard(message["channel"].decode())
                if not missing:
                    self._up.set()
                    self._came_up()

    def _hand_on(self, channel: str, sealed: bytes) -> None:
        data = self._link.open(channel, sealed)
        if data is None:
            return
        try:
            self._take(decode(data))
        except NotAHandoverMessage as error:
            log.warning("not a handover message: %s", error, extra={"action": "handover_refused"})
        except Exception:
            # A message that cannot be processed must not end the subscription.
            log.exception("handover message failed", extra={"action": "handover_failed"})
