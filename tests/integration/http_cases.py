# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as bytes: requests that are in order, and requests that break a rule of RFC 9112."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

HOST: Final = b"Host: x\r\n"
GET: Final = b"GET /healthz HTTP/1.1\r\n" + HOST
POST: Final = b"POST /v1/auth/refresh HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
BODY: Final = b'{"refresh_token":"x"}'
CHUNKED: Final = POST + b"Transfer-Encoding: chunked\r\n\r\n"
END: Final = b"\r\n"

ALIVE: Final = 200
UNKNOWN_TOKEN: Final = 401
"""The answer to a body that was read to its end and understood."""


@dataclass(frozen=True)
class Case:
    """Bytes, and the statuses that answer them; whether the connection then is over."""

    name: str
    sent: bytes
    statuses: tuple[int, ...]
    is_over: bool = False
    has_body: bool = True


def ok(name: str, sent: bytes, *statuses: int) -> Case:
    """In order: answered, and the connection goes on."""
    return Case(name, sent, statuses or (ALIVE,))


def bad(name: str, sent: bytes, status: int = 400) -> Case:
    """Broken: refused, and whatever follows is not looked at."""
    return Case(name, sent + GET + END, (status,), is_over=True)


def last(name: str, sent: bytes, status: int = ALIVE) -> Case:
    """In order, and the last request of its connection."""
    return Case(name, sent + GET + END, (status,), is_over=True)


def request_lines() -> Iterator[Case]:
    yield ok("origin form with a query", b"GET /docs?a=b HTTP/1.1\r\n" + HOST + END, 200)
    yield ok("absolute form", b"GET http://x/healthz HTTP/1.1\r\n" + HOST + END)
    yield ok("empty lines before it", b"\r\n\r\n" + GET + END)
    yield ok("an unknown but well-formed path", b"GET /nowhere HTTP/1.1\r\n" + HOST + END, 404)
    yield ok("a method that is not there", b"DELETE /healthz HTTP/1.1\r\n" + HOST + END, 405)
    yield ok("OPTIONS", b"OPTIONS /healthz HTTP/1.1\r\n" + HOST + END, 405)
    for name, line in {
        "a space at the end": b"GET /healthz HTTP/1.1 ",
        "a tab": b"GET\t/healthz\tHTTP/1.1",
        "small letters in the protocol": b"GET /healthz http/1.1",
        "another protocol": b"GET /healthz HTTPS/1.1",
        "a version without a minor": b"GET /healthz HTTP/1",
        "a version with two digits": b"GET /healthz HTTP/1.10",
        "no target": b"GET HTTP/1.1",
        "an unknown method": b"FETCH /healthz HTTP/1.1",
        "a method in small letters": b"get /healthz HTTP/1.1",
        "a control character in the target": b"GET /heal\x00thz HTTP/1.1",
        "nothing but noise": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }.items():
        yield bad(f"request line with {name}", line + END + HOST + END)
    yield ok("two blanks, as a recipient may take them", b"GET  /healthz HTTP/1.1\r\n" + HOST + END)
    yield bad("request line with no version", b"GET /healthz\r\n" + HOST + END, 505)
    for version in (b"HTTP/2.0", b"HTTP/0.9"):
        head = b"GET /healthz " + version + END + HOST + END
        yield bad(f"version {version.decode()}", head, 505)
    yield bad("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    yield bad("CONNECT", b"CONNECT x:80 HTTP/1.1\r\n" + HOST + END)
    long_target = b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + END
    yield bad("a target without end", long_target, 431)


def headers() -> Iterator[Case]:
    yield ok("no blank after the colon", GET + b"X-A:b\r\n\r\n")
    yield ok("blanks around the value", GET + b"X-A: \t b \t\r\n\r\n")
    yield ok("an empty value", GET + b"X-A:\r\n\r\n")
    yield ok("bytes beyond ASCII in a value", GET + b"X-A: \xff\xfe\r\n\r\n")
    yield ok("a hundred headers", GET + b"X-A: b\r\n" * 100 + END)
    for name, line in {
        "a blank before the colon": b"X-A : b",
        "a blank in the name": b"X A: b",
        "no colon": b"X-A",
        "no name": b": b",
        "a folded line": b"X-A: b\r\n c",
        "a line that begins with a blank": b" X-A: b",
        "a NUL in the value": b"X-A: b\x00c",
        "a NUL in the name": b"X-\x00A: b",
        "a bare CR in the value": b"X-A: b\rc",
        "a control character in the name": b"X-\x01A: b",
    }.items():
        yield bad(f"header with {name}", GET + line + END + END)
    yield bad("bare LF at the end of lines", b"GET /healthz HTTP/1.1\nHost: x\n\n")
    yield bad("one header without end", GET + b"X-A: " + b"b" * 40_000 + END + END, 431)
    yield bad("headers without end", GET + b"X-A: b\r\n" * 6_000 + END, 431)


def hosts() -> Iterator[Case]:
    line = b"GET /healthz HTTP/1.1\r\n"
    yield ok("an empty host", line + b"Host:\r\n\r\n")
    yield ok("a host with a port", line + b"Host: x:8080\r\n\r\n")
    yield ok("a host of IPv6", line + b"Host: [::1]:8080\r\n\r\n")
    yield bad("no host", line + END)
    yield bad("two hosts", line + b"Host: x\r\nHost: y\r\n\r\n")
    yield bad("the same host twice", line + b"Host: x\r\nHost: x\r\n\r\n")


def lengths() -> Iterator[Case]:
    size = str(len(BODY)).encode()
    yield ok("a body", POST + b"Content-Length: " + size + b"\r\n\r\n" + BODY, UNKNOWN_TOKEN)
    yield ok("leading zeros", POST + b"Content-Length: 00" + size + b"\r\n\r\n" + BODY, 401)
    yield ok("no body where one is needed", POST + END, 400)
    yield ok("a body where none is needed", GET + b"Content-Length: 3\r\n\r\nabc" + GET + END,
             ALIVE, ALIVE)  # fmt: skip
    for value in (b"-1", b"+1", b"1.0", b"0x10", b"", b"1 1", b"1,1", b"a", b"9" * 30, b"1e1"):
        head = POST + b"Content-Length: " + value + b"\r\n\r\n"
        yield bad(f"a length of {value.decode()[:10]!r}", head)
    twice = b"Content-Length: 3\r\n"
    yield bad("two lengths", GET + twice + b"Content-Length: 4\r\n\r\nabc")
    yield bad("the same length twice", GET + twice + twice + b"\r\nabc")


def encodings() -> Iterator[Case]:
    end = b"0\r\n\r\n"
    smuggled = b"0\r\n\r\n" + b"GET /nowhere HTTP/1.1\r\n" + HOST + END
    both = b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
    yield bad("length and encoding", POST + both + smuggled)
    yield bad("encoding and length", POST + b"Content-Length: 5\r\n" + both[:28] + END + smuggled)
    yield ok("capital letters", POST + b"Transfer-Encoding: CHUNKED\r\n\r\n" + end, 400)
    for value, status in {
        b"gzip": 501, b"identity": 501, b"gzip, chunked": 501, b"chunked, gzip": 400,
        b"chunked, chunked": 400, b"xchunked": 501, b"chunkedx": 501, b"\x0bchunked": 400, b"": 400,
    }.items():  # fmt: skip
        head = POST + b"Transfer-Encoding: " + value + b"\r\n\r\n"
        yield bad(f"an encoding of {value.decode()!r}", head + end, status)
    two = b"Transfer-Encoding: chunked\r\n" * 2 + END
    yield bad("two encodings", POST + two + end)
    old = POST.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n\r\n"
    yield bad("an encoding in HTTP/1.0", old + end)
    yield bad("a blank before the colon", POST + b"Transfer-Encoding : chunked\r\n\r\n" + end)


def chunks() -> Iterator[Case]:
    size = b"%x" % len(BODY)
    whole = BODY + END
    yield ok("one chunk", CHUNKED + size + END + whole + b"0\r\n\r\n", UNKNOWN_TOKEN)
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    yield ok("many chunks", CHUNKED + pieces + b"0\r\n\r\n", UNKNOWN_TOKEN)
    yield ok("an extension", CHUNKED + size + b';a="b;c"\r\n' + whole + b"0;x\r\n\r\n", 401)
    yield ok("zeros before the size", CHUNKED + b"000" + size + END + whole + b"000\r\n\r\n", 401)
    for name, sent in {
        "no size": b"\r\nabc\r\n0\r\n\r\n",
        "a size that is no number": b"xyz\r\nabc\r\n0\r\n\r\n",
        "a negative size": b"-1\r\nabc\r\n0\r\n\r\n",
        "a sign": b"+3\r\nabc\r\n0\r\n\r\n",
        "a prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
        "a size beyond all": b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "too much": b"2\r\nabc\r\n0\r\n\r\n",
        "a bare LF": b"3\nabc\n0\n\n",
        "a bare LF after an extension": b"3;a\nabc\r\n0\r\n\r\n",
        "a blank before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    }.items():
        yield bad(f"a chunk with {name}", CHUNKED + sent)


def trailers() -> Iterator[Case]:
    body = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n"
    yield ok("a trailer", CHUNKED + body + b"Digest: x\r\n\r\n", UNKNOWN_TOKEN)
    yield ok("a trailer that would be a host", CHUNKED + body + b"Host: y\r\n\r\n", 401)
    framing = b"Content-Length: 5\r\n\r\n"
    yield bad("a trailer that would be a length", CHUNKED + body + framing)
    yield bad("a trailer without a colon", CHUNKED + body + b"Digest\r\n\r\n")
    yield bad("trailers without end", CHUNKED + body + b"a:b\r\n" * 4_000, 431)


def connections() -> Iterator[Case]:
    yield last("close", GET + b"Connection: close\r\n\r\n")
    yield last("close among others", GET + b"Connection: x, Close\r\n\r\n")
    yield ok("keep-alive", GET + b"Connection: keep-alive\r\n\r\n" + GET + END, ALIVE, ALIVE)
    old = b"GET /healthz HTTP/1.0\r\n"
    yield last("HTTP/1.0", old + END)
    yield last("HTTP/1.0 with a host", old + HOST + END)
    yield last("HTTP/1.0 that would stay", old + b"Connection: keep-alive\r\n\r\n")
    yield bad("HTTP/1.0 with two hosts", old + HOST + HOST + END)
    yield ok("three at once", (GET + END) * 3, ALIVE, ALIVE, ALIVE)
    yield ok("a body, then another request", POST + b"Content-Length: %d\r\n\r\n" % len(BODY)
             + BODY + GET + END, UNKNOWN_TOKEN, ALIVE)  # fmt: skip
    garbage = GET + END + b"NONSENSE\r\n\r\n"
    yield Case("nonsense after a request", garbage, (200, 400), is_over=True)


def the_rest() -> Iterator[Case]:
    head = b"HEAD /docs HTTP/1.1\r\n" + HOST + END
    yield Case("HEAD", head, (200,), has_body=False)
    yield ok("an upgrade to what is not there", GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"
             + GET + END, ALIVE, ALIVE)  # fmt: skip
    expecting = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    yield ok("an expectation, and the body at once", expecting + BODY, 100, UNKNOWN_TOKEN)
    yield ok("an expectation that needs no body", GET + b"Expect: 100-continue\r\n\r\n", ALIVE)


def cases() -> list[Case]:
    """All of them."""
    groups = (
        request_lines, headers, hosts, lengths, encodings, chunks, trailers, connections, the_rest,
    )  # fmt: skip
    return [
        Case(f"{group.__name__}: {one.name}", one.sent, one.statuses, one.is_over, one.has_body)
        for group in groups
        for one in group()
    ]
