# SPDX-License-Identifier: Apache-2.0
"""Identifiers: their alphabets, users qualified by tenant, message ids and ULIDs."""

import re
from typing import Final, NewType

ChatId = NewType("ChatId", str)
"""A ULID. Only a name: never used as an order or a cursor."""

UserKey = NewType("UserKey", str)
"""A user qualified by its tenant, ``tenant:user``. Never shown to clients; see `user_id`."""

TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
USER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._@+-]{1,64}")
"""Neither `.` nor `..`, which clients and proxies remove from a path."""
TENANT_ITSELF: Final = "~tenant"
"""Sender of entries that the tenant made with its key. No user can have this name."""
DEVICE: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
CLIENT_MESSAGE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
CHAT: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
SESSION: Final = CHAT
"""Also a ULID."""
MESSAGE: Final = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.([1-9][0-9]{0,15})")

SEQUENCE_MAX: Final = 2**53 - 1
"""The largest sequence a client in any language can hold exactly."""

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def user_key(tenant: str, user: str) -> UserKey:
    """Qualify a user id. Neither alphabet has a colon, so two users never share a key."""
    return UserKey(f"{tenant}:{user}")


def user_id(key: UserKey) -> str:
    """Return the part of a user key that clients know."""
    return key[key.index(":") + 1 :]


def tenant_of(key: UserKey) -> str:
    """Return the tenant that a user key belongs to."""
    return key[: key.index(":")]


def tenant_itself(tenant: str) -> UserKey:
    """Return the user key that stands for the tenant itself."""
    return UserKey(f"{tenant}:{TENANT_ITSELF}")


def message_id(chat: ChatId, sequence: int) -> str:
    """Return a message's public id. It contains the sequence, so a look-up needs no index."""
    return f"{chat}.{sequence}"


def locate(message: str) -> tuple[ChatId, int] | None:
    """Return the chat and sequence of a message id; None if it is malformed."""
    match = MESSAGE.fullmatch(message)
    return (ChatId(match[1]), int(match[2])) if match else None


def ulid(time_ms: int, entropy: bytes) -> str:
    """Return a ULID made of a time and ten random bytes."""
    assert len(entropy) == 10, f"a ULID holds 80 random bits, got {len(entropy)} bytes"
    value = (time_ms & (1 << 48) - 1) << 80 | int.from_bytes(entropy, "big")
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))


def ulid_time(made: str) -> int:
    """Return the time in a ULID."""
    time = 0
    for character in made[:10]:
        time = time << 5 | _CROCKFORD.index(character)
    return time
