# SPDX-License-Identifier: Apache-2.0
"""Encodes events for other processes, encrypts messages between processes, and signs webhooks.

An event contains an entry as it is stored, with its content encrypted or left out. A process
ignores fields that it does not know, so that two versions can run side by side.

Messages between processes go through Redis, Kafka and SQS. They are encrypted with AES-256-GCM,
because otherwise anybody who can write there could forge frames and jobs. Each message is bound to
its destination: a channel, topic or queue. An encrypted message consists of a version byte, the
sender's salt, the sender's counter, and the ciphertext. Each process draws a salt when it starts,
and derives its own key from the shared secret and the salt. The counter can therefore be the nonce:
it never repeats under the same key.

In the header `Tidings-Signature: t=<seconds>,v1=<hex>` of a webhook, `v1` is the HMAC-SHA256 of
`<seconds>.<body>` under the webhook's secret. While the secret is being replaced there is a second
`v1` under the previous secret, and the receiver accepts a request if either is right. The headers
`webhook-id`, `webhook-timestamp` and `webhook-signature` say the same as the Standard Webhooks
specification does; requests to endpoints of tenants have only these.
"""

import hashlib
import hmac
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.caches import LruCache
from tidings.metrics.counts import report_counts
from tidings.model.entries import Entry
from tidings.model.ids import ChatId

SIGNATURE_HEADER: Final = "Tidings-Signature"
DELIVERY_HEADER: Final = "Tidings-Delivery"

log = logging.getLogger("tidings.messages")

SALT_BYTES: Final = 16
LOG_SECONDS_MIN: Final = 60.0
SENDERS_MAX: Final = 1_024
"""Number of senders whose derived keys are cached. For further senders a key is derived for each
message, which takes 2 µs."""

_VERSION: Final = b"\x01"
_COUNTER_BYTES: Final = 8
_TAG_BYTES: Final = 16
_NONCE_PADDING: Final = bytes(4)
_HEADER_BYTES: Final = len(_VERSION) + SALT_BYTES + _COUNTER_BYTES


def signature(secrets: Sequence[bytes], seconds: int, body: bytes) -> str:
    """Return the value of the signature header."""
    signed = f"{seconds}.".encode() + body
    macs = [f"v1={hmac.digest(secret, signed, 'sha256').hex()}" for secret in secrets]
    return ",".join([f"t={seconds}", *macs])


def webhook_headers(
    secrets: Sequence[bytes], post_id: str, seconds: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a signed request with this JSON body, as the Standard Webhooks
    specification says."""
    signed = f"{post_id}.{seconds}.".encode() + body
    macs = [b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": post_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{mac}" for mac in macs),
    }


def signed_headers(secrets: Sequence[bytes], now: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request of the operator's webhooks, sent at `now` in milliseconds.

    They have the signature of the specification, and the header with which earlier versions signed.
    """
    seconds = now // 1_000
    return {
        **webhook_headers(secrets, delivery_id(body), seconds, body),
        SIGNATURE_HEADER: signature(secrets, seconds, body),
    }


def secrets_of(newest: str, previous: str | None) -> list[bytes]:
    """Return the secrets to sign with: the newest and, if given, the previous one."""
    return [secret.encode() for secret in (newest, previous) if secret is not None]


def delivery_id(body: bytes) -> str:
    """Return the id of a delivery: a digest of its body, so it is the same at every attempt.

    Another process computes the same id for the same batch. The id needs no signature of its own,
    because the body is signed.
    """
    return hashlib.sha256(body).hexdigest()


class MessageCipher:
    """Encrypts and decrypts the messages between processes that have the same secret."""

    def __init__(
        self, secret: bytes, salt: bytes, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Derive the key with which this process encrypts its messages.

        The salt must be random and never used before. `now` is the clock for the rate limit on log
        messages.
        """
        assert len(salt) == SALT_BYTES
        self.refused = 0
        """Number of received messages that were rejected as forged, changed, or meant for another
        destination."""
        report_counts(self, "message cipher")
        self._secret = secret
        self._header = _VERSION + salt
        self._own = AESGCM(self._derived(salt))
        self._counter = count()
        self._others: LruCache[bytes, AESGCM] = LruCache(SENDERS_MAX)
        self._now = now
        self._log_at = float("-inf")

    def seal(self, destination: str, payload: bytes) -> bytes:
        """Encrypt a payload as a message that can be decrypted only at this destination."""
        counter = next(self._counter).to_bytes(_COUNTER_BYTES, "big")
        box = self._own.encrypt(counter + _NONCE_PADDING, payload, destination.encode())
        return self._header + counter + box

    def open(self, destination: str, sealed: bytes) -> bytes | None:
        """Decrypt a message; return None if it is forged or changed, or is for another destination.

        Rejected messages are counted, and some of them are logged.
        """
        payload = self._opened(destination.encode(), sealed)
        if payload is None:
            self._refuse(destination)
        return payload

    def _opened(self, bound_to: bytes, sealed: bytes) -> bytes | None:
        if len(sealed) < _HEADER_BYTES + _TAG_BYTES or not sealed.startswith(_VERSION):
            return None
        salt, counter = sealed[1 : 1 + SALT_BYTES], sealed[1 + SALT_BYTES : _HEADER_BYTES]
        cipher = self._others.peek(salt) or AESGCM(self._derived(salt))
        try:
            payload = cipher.decrypt(counter + _NONCE_PADDING, sealed[_HEADER_BYTES:], bound_to)
        except InvalidTag:
            return None
        # The key is cached only after success: an invented salt must not evict a salt that is in
        # use.
        self._others.put(salt, cipher)
        return payload

    def _derived(self, salt: bytes) -> bytes:
        return blake2b(b"messages" + salt, key=self._secret, digest_size=32).digest()

    def _refuse(self, destination: str) -> None:
        self.refused += 1
        now = self._now()
        if now - self._log_at >= LOG_SECONDS_MIN:
            self._log_at = now
            log.warning(
                "a message is not from this deployment, or was changed, or was sent elsewhere",
                extra={
                    "action": "message_refused",
                    "destination": destination,
                    "refused": self.refused,
                },
            )


class EntryEvent(msgspec.Struct, tag_field="event", tag="entry", frozen=True):
    """An entry was stored.

    If the event is old, the receiver does not use the entry in it, and reads the log instead.
    """

    entry: Entry
    until: int = 0
    """Sequence of the last entry that was appended in the same run as this entry, or of a later
    entry."""

    @property
    def chat(self) -> ChatId:
        """Return the chat of the entry."""
        return self.entry.chat_id

    @property
    def sequence(self) -> int:
        """Return the sequence of the entry, which is a lower bound for the head."""
        return self.entry.sequence


class HintEvent(msgspec.Struct, tag_field="event", tag="hint", frozen=True):
    """A lower bound for the head of a chat.

    The receiver checks that all entries up to this sequence were delivered.
    """

    chat: ChatId
    sequence: int


class CleanedEvent(msgspec.Struct, tag_field="event", tag="cleaned", frozen=True):
    """The content of expired messages of a chat was removed, so unread counts have changed."""

    chat: ChatId
    sequences: tuple[int, ...]


class _EntryPlace(msgspec.Struct):
    chat_id: ChatId
    sequence: int


class _UnknownEntryEvent(msgspec.Struct, tag_field="event", tag="entry"):
    """An event whose entry this version does not understand; only the chat and the sequence are
    decoded."""

    entry: _EntryPlace


WireEvent = EntryEvent | HintEvent | CleanedEvent

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireEvent).decode
_decode_place = msgspec.msgpack.Decoder(_UnknownEntryEvent).decode


class NotAnEvent(Exception):
    """The bytes are not a valid event."""


def entry_event(entry: Entry, until: int = 0) -> bytes:
    """Encode an entry for the workers, without its decrypted content.

    `until` is the head of the log right after this entry, and after the entries that were appended
    together with it.
    """
    is_message = entry.kind == "message"
    stored = msgspec.structs.replace(
        entry,
        content=None,
        gone=None,
        shown=None,
        mine=(),
        attachments=(),
        digest=None,
        # An edit has no content of its own: the process that delivers it reads the target.
        box=entry.box if is_message else None,
        box_key=entry.box_key if is_message else 0,
    )
    return _encode(EntryEvent(stored, until))


def encode_event(event: HintEvent | CleanedEvent) -> bytes:
    """Encode an event that carries no entry."""
    return _encode(event)


def decode_event(data: bytes) -> WireEvent:
    """Decode an event.

    An entry that this version does not understand, because a newer version wrote it, becomes a
    hint: the entry is then read from the log, with the fields that this version knows.

    Raises:
        NotAnEvent: The bytes are not an event, or a field has an impossible value.
    """
    try:
        event: WireEvent = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            place = _decode_place(data).entry
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise NotAnEvent(str(error)) from None
        event = HintEvent(place.chat_id, place.sequence)
    if not isinstance(event, CleanedEvent) and event.sequence < 1:
        raise NotAnEvent(f"no entry has the sequence {event.sequence}")
    return event
