# SPDX-License-Identifier: Apache-2.0
"""Byte streams for the port: valid HTTP and WebSocket, mutated, and cut at random places."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
from hypothesis import strategies as st

from tests.integration import bad_frames
from tests.integration.raw_socket import ws_frame

STREAM_BYTES_MAX: Final = 60_000

METHODS: Final = (
    "GET",
    "GET",
    "GET",
    "POST",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "CONNECT",
    "BREW",
)
TARGETS: Final = (
    "/healthz", "/readyz", "/v1/me", "/v1/chats", "/v1/auth/refresh", "/v1/auth/codes", "/v1/ws",
    "/v1/ws?x", "/docs", "*", "/%00", "/v1/chats/%2e%2e", "http://x/healthz", "/" + "a" * 3_000,
)  # fmt: skip
VERSIONS: Final = ("HTTP/1.1",) * 12 + ("HTTP/1.0", "HTTP/2.0", "HTTP/1.2")
HARMLESS: Final = (
    "Connection: keep-alive", "Expect: 100-continue", "Content-Type: application/json",
    "Content-Encoding: gzip", "Authorization: Bearer x", "X-Forwarded-For: 1.2.3.4",
    "Origin: https://evil.tld", "Accept-Encoding: *;q=0", "X: " + "y" * 5_000, "Cookie:",
    "Upgrade: h2c", "X-Request-Id: a", "Idempotency-Key: k",
)  # fmt: skip
DECISIVE: Final = (
    "Host: x", "Connection: close", "Connection: Upgrade", "Upgrade: websocket",
    "Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: x",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Content-Length: 0", "Content-Length: 5",
    "Content-Length: 99999999", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
)  # fmt: skip
HEADERS: Final = HARMLESS * 3 + DECISIVE
BODIES: Final = (b"", b"{}", b'{"refresh_token":"x"}', b"[" * 2_000, b"\xff\x00", b"x" * 9_000)
TEXTS: Final = tuple(payload for _, payload in bad_frames.unknown_ops()) + tuple(
    bad_frames.encode(op, fields) for op, fields in bad_frames.GOOD.items()
)


@dataclass(frozen=True)
class Stream:
    """What a client writes, in these pieces, and whether it then says that nothing more comes."""

    pieces: tuple[bytes, ...]
    says_end: bool = True
    is_greeted: bool = False
    """Whether it is a socket that was let in first."""


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks, some with extensions, and with trailers."""
    size = draw(st.integers(1, 4_000))
    extension = draw(st.sampled_from([b"", b"", b";a=b", b";" + b"x" * 2_000]))
    chunks = [
        b"%x" % len(part) + extension + b"\r\n" + part + b"\r\n"
        for at in range(0, len(body), size)
        if (part := body[at : at + size])
    ][:200]
    trailers = draw(st.sampled_from([b"", b"a: b\r\n", b"Host: y\r\n", b"a: b\r\n" * 2_000]))
    return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One HTTP request, in order for the most part."""
    line = " ".join(draw(st.sampled_from(one)) for one in (METHODS, TARGETS, VERSIONS))
    more = draw(st.lists(st.sampled_from(HEADERS), max_size=3))
    body = draw(st.sampled_from(BODIES))
    framing = draw(st.sampled_from(["none", "length", "chunks"]))
    lines = [line, "Host: x", *more]
    if framing == "length":
        lines.append(f"Content-Length: {len(body)}")
    elif framing == "chunks":
        lines.append("Transfer-Encoding: chunked")
        body = draw(chunked(body))
    else:
        body = b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One WebSocket frame, in order for the most part."""
    payload = draw(st.one_of(st.sampled_from(TEXTS), st.binary(max_size=300)))
    return ws_frame(
        payload,
        draw(st.sampled_from([1, 1, 1, 1, 0, 2, 8, 9, 10, *range(16)])),
        fin=draw(st.sampled_from([True, True, True, False])),
        reserved=draw(st.sampled_from([0, 0, 0, 0, 0, 1, 4])),
        is_masked=draw(st.sampled_from([True, True, True, True, False])),
        claimed_length=draw(st.sampled_from([None] * 8 + [0, 126, 65_536, 2**31, 2**63])),
    )


def greeting(token: str) -> bytes:
    """A hello, as a frame."""
    return ws_frame(msgspec.json.encode({"op": "hello", "token": token, "device": "fuzz"}))


@st.composite
def sockets(draw: st.DrawFn, handshake: bytes, token: str) -> bytes:
    """A handshake, a hello and frames."""
    hello = greeting(token)
    start = draw(st.sampled_from([handshake + hello, handshake + hello, handshake, hello]))
    return start + b"".join(draw(st.lists(frames(), max_size=12)))


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """The same with bits turned, pieces cut out, doubled, moved or put in."""
    spoilt = bytearray(data)
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 4]))):
        at = draw(st.integers(0, max(0, len(spoilt) - 1)))
        size = draw(st.integers(1, 40))
        match draw(st.sampled_from(["turn", "cut", "double", "put", "end"])):
            case "turn" if spoilt:
                spoilt[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del spoilt[at : at + size]
            case "double":
                spoilt[at:at] = spoilt[at : at + 30 * size]
            case "put":
                spoilt[at:at] = draw(st.one_of(st.binary(max_size=20), st.sampled_from(SEAMS)))
            case _:
                del spoilt[at:]
    return bytes(spoilt)


SEAMS: Final = (b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"0\r\n\r\n", b":", b" ", b"\x00", b"\x81\x00")


@st.composite
def streams(draw: st.DrawFn, handshake: bytes, token: str) -> Stream:
    """What a client may write to the port."""
    kind = draw(st.sampled_from(["requests", "requests", "socket", "greeted", "both", "noise"]))
    match kind:
        case "requests":
            data = b"".join(draw(st.lists(requests(), min_size=1, max_size=15)))
        case "socket":
            data = draw(sockets(handshake, token))
        case "greeted":
            data = b"".join(draw(st.lists(frames(), min_size=1, max_size=20)))
        case "both":
            data = draw(requests()) + draw(sockets(handshake, token))
        case _:
            data = draw(st.binary(max_size=400))
    data = draw(mutated(data))[:STREAM_BYTES_MAX]
    cuts = sorted({draw(st.integers(0, len(data))) for _ in range(draw(st.integers(0, 6)))})
    places = [0, *cuts, len(data)]
    pieces = tuple(data[a:b] for a, b in pairwise(places) if a < b)
    says_end = draw(st.sampled_from([True, True, True, False]))
    return Stream(pieces, says_end, kind == "greeted")
