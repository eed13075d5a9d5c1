# SPDX-License-Identifier: Apache-2.0
"""Frames that no client should send, each of which has to be refused or end the connection."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

NOWHERE: Final = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

GOOD: Final[dict[str, dict[str, Any]]] = {
    "hello": {"token": "t"},
    "send": {"id": "1", "chat": NOWHERE, "client_message_id": "m", "content": "x"},
    "received": {"chat": NOWHERE, "sequence": 1},
    "read": {"chat": NOWHERE, "sequence": 1},
    "typing": {"chat": NOWHERE},
    "fetch": {"id": "1", "chat": NOWHERE, "after": 1},
    "auth": {"token": "t"},
}
"""One frame of each op with the fields it needs."""

NOT_TEXT: Final = [None, True, 5, -1.5, [], ["x"], {}, {"a": "b"}]
NOT_A_SEQUENCE: Final = [True, 1.5, 1.0, "1", [], {}, -1, 2**53, 2**63, 2**64, 10**30, 1e300]
OPTIONAL: Final[dict[str, dict[str, list[Any]]]] = {
    "send": {
        "content_type": [5, [], ""],
        "ttl_seconds": [True, 1.5, "5", [], 0, -5, 2**40, 2**70],
    },
    "fetch": {"limit": [None, True, 0, 101, -1, 2.5, "50", []]},
}


def encode(op: str, fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"op": op, **fields})


def wrong_fields() -> Iterator[tuple[str, bytes]]:
    """Every field of every op with every wrong type, and without it."""
    for op, fields in GOOD.items():
        for name in fields:
            rest = {other: value for other, value in fields.items() if other != name}
            yield f"{op} without {name}", encode(op, rest)
            is_number = name in ("sequence", "after")
            for wrong in NOT_A_SEQUENCE if is_number else NOT_TEXT:
                yield f"{op} {name}={wrong!r}", encode(op, {**fields, name: wrong})
        for name, values in OPTIONAL.get(op, {}).items():
            for wrong in values:
                yield f"{op} {name}={wrong!r}", encode(op, {**fields, name: wrong})


def with_number(text: str) -> bytes:
    return f'{{"op":"read","chat":"{NOWHERE}","sequence":{text}}}'.encode()


def with_content(text: bytes) -> bytes:
    head = f'{{"op":"send","id":"1","chat":"{NOWHERE}","client_message_id":"m","content":"'
    return head.encode() + text + b'"}'


def raw_frames() -> Iterator[tuple[str, bytes]]:
    """What does not come out of a JSON encoder."""
    numbers = ["1e999", "-1e999", "9" * 10_000, "-" + "9" * 10_000, "NaN", "Infinity", "0x10"]
    numbers += ["01", "1.", ".5", "+1", "1e", "--1", "1_000", "1e-5"]
    for number in numbers:
        yield f"number {number[:12]}", with_number(number)
    depth = 30_000
    yield "lists in lists, open", b"[" * 2 * depth
    yield "lists in lists", b"[" * depth + b"]" * depth
    yield "objects in objects", b'{"a":' * 10_000 + b"1" + b"}" * 10_000
    yield "deep op", b'{"op":' + b"[" * depth + b"]" * depth + b"}"
    yield "deep unknown field", b'{"op":"ping","x":' + b"[" * depth + b"]" * depth + b"}"
    yield "deep id", b'{"op":"send","id":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001
    for name, text in {
        "invalid UTF-8": b"\xff\xfe",
        "half a character": b"\xe2\x82",
        "a surrogate in UTF-8": b"\xed\xa0\x80",
        "overlong": b"\xc0\xaf",
        "beyond Unicode": b"\xf5\x80\x80\x80",
        "a lone high surrogate": rb"\ud800",
        "a lone low surrogate": rb"\udc00",
        "two high surrogates": rb"\ud800\ud800",
        "a bad escape": rb"\x41",
        "half an escape": rb"\u00",
        "a raw NUL": b"\0",
        "a raw newline": b"\n",
    }.items():
        yield f"content with {name}", with_content(text)
    for name, whole in {
        "nothing": b"",
        "blanks": b"   ",
        "NUL": b"\0",
        "a byte order mark": b'\xef\xbb\xbf{"op":"ping"}',
        "a rest": b'{"op":"ping"}{"op":"ping"}',
        "an end too few": b'{"op":"ping"',
        "single quotes": b"{'op':'ping'}",
        "no object": b'"ping"',
        "a list": b'[{"op":"ping"}]',
        "a number": b"5",
        "null": b"null",
        "no op": b"{}",
        "an op twice, the last unknown": b'{"op":"ping","op":"pong"}',
    }.items():
        yield f"{name} alone", whole


def unknown_ops() -> Iterator[tuple[str, bytes]]:
    """Ops that there are not."""
    for op in ("", "Send", "HELLO", "welcome", "entry", "bye", "x" * 10_000, "se\0nd", "🙂"):
        yield f"op {op[:10]!r}", encode(op, {"id": "1"})
    no_ops: list[Any] = [None, True, 5, 1.5, [], {}]
    for no_op in no_ops:
        yield f"op {no_op!r}", msgspec.json.encode({"op": no_op, "id": "1"})


def beyond_what_is_there(chat: str) -> Iterator[tuple[str, bytes]]:
    """Well-formed frames about what never was, on a chat of one's own."""
    for op in ("received", "read"):
        for sequence in (10**6, 2**53 - 1):
            yield f"{op} {sequence}", encode(op, {"chat": chat, "sequence": sequence})
    yield "fetch both ways", encode("fetch", {"id": "1", "chat": chat, "after": 1, "before": 2})
    yield "fetch no way", encode("fetch", {"id": "1", "chat": chat})
    send = {"id": "1", "chat": chat, "client_message_id": "m", "content": "x"}
    yield "send nothing", encode("send", send | {"content": ""})
    yield "send too much", encode("send", send | {"content": "x" * 4_097})
    yield "send far too much", encode("send", send | {"content": "x" * 60_000})
    yield "send under no name", encode("send", send | {"client_message_id": "a b"})
