# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 by raw bytes, whole and cut into single bytes."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from tests.integration.http_cases import ALIVE, BODY, END, GET, POST, Case, cases
from tests.integration.raw_socket import RawSocket
from tests.support.server import ServerProcess
from tests.support.waiting import retried

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = cases()


async def check(raw: RawSocket, case: Case) -> None:
    headers: dict[str, str] = {}
    for expected in case.statuses:
        status, headers, _ = await raw.answer(has_body=case.has_body)
        assert status == expected, headers
    if case.is_over:
        assert headers["connection"] == "close"
        assert await raw.is_at_end(), "what follows is not looked at"
    else:
        raw.write(GET + b"X-Request-Id: next\r\n\r\n")
        status, headers, _ = await raw.answer()
        assert (status, headers["x-request-id"]) == (200, "next"), "the next answer is the next's"


@pytest.mark.attack("E11", "E12")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_bytes_are_read_as_the_rfc_says(server: ServerProcess, case: Case) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(case.sent)
        await check(raw, case)


async def write_in_pieces(raw: RawSocket, case: Case, size: int) -> None:
    """Send the bytes of a case in pieces, and check the answer."""
    pieces = [case.sent[at : at + size] for at in range(0, len(case.sent), size)]
    if not case.is_over:
        for piece in pieces:
            raw.write(piece)
            await raw.flush()
        await check(raw, case)
        return
    # The server reads on for a few seconds after a refusal, and this may take longer: the answer is
    # read as soon as it comes.
    checking = asyncio.create_task(check(raw, case))
    with suppress(ConnectionError):
        for piece in pieces:
            if checking.done():
                break
            raw.write(piece)
            await raw.flush()
            await asyncio.sleep(0)  # an answer that is there is read before the next piece
    await checking


@pytest.mark.attack("E12")
@pytest.mark.parametrize("size", [1, 7])
async def test_it_does_not_matter_how_they_are_cut(server: ServerProcess, size: int) -> None:
    for case in CASES:
        if len(case.sent) > 1_000:
            continue
        # A client that writes on after an ordinary last answer may be reset; a refusal is read.
        may_be_reset = case.is_over and case.statuses[-1] == ALIVE
        errors = (ConnectionResetError, BrokenPipeError) if may_be_reset else ()
        await retried(partial(_answered_in_pieces, server, case, size), *errors)


async def _answered_in_pieces(server: ServerProcess, case: Case, size: int) -> None:
    async with await RawSocket.connect(server.port) as raw:
        await write_in_pieces(raw, case, size)


async def test_a_body_is_asked_for_before_it_is_sent(server: ServerProcess) -> None:
    head = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    async with await RawSocket.connect(server.port) as raw:
        raw.write(head)
        assert await raw.status() == 100
        raw.write(BODY)
        assert await raw.status() == 401


async def test_every_answer_has_a_date_and_a_length_or_chunks(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as raw:
        for path in (b"/healthz", b"/nowhere", b"/openapi.json"):
            raw.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + END)
            _, headers, _ = await raw.answer()
            assert "date" in headers
            assert ("content-length" in headers) != ("transfer-encoding" in headers)
