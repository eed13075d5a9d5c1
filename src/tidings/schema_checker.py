# SPDX-License-Identifier: Apache-2.0
"""Check schemas in a child process, which can be killed if a check takes too long.

A thread is not enough, because the library holds the interpreter lock during the whole check.
"""

import asyncio
import logging
import signal
import sys

import msgspec

from tidings.model import limits
from tidings.ports.inboxes import CheckerBusy, TookTooLong
from tidings.schema_check_process import NOT_VALID, VALID, Question

log = logging.getLogger("tidings.checking")


class ProcessChecker:
    """Checker that runs one check at a time, so that at most one core is busy.

    Only a few checks may wait.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def is_valid(self, schema: dict[str, object], value: object) -> bool:
        """Return True if the value satisfies the schema.

        Raises:
            TookTooLong: The check exceeded its CPU time.
            CheckerBusy: Too many checks are waiting, the wait was too long, or the process failed.
        """
        if self._waiting >= limits.SCHEMA_CHECKS_WAITING_MAX:
            raise CheckerBusy
        self._waiting += 1
        try:
            async with self._turn, asyncio.timeout(limits.SCHEMA_CHECK_WAIT_SECONDS_MAX):
                code = await _ask(msgspec.json.encode(Question(schema, value)))
        except TimeoutError:
            raise CheckerBusy from None
        finally:
            self._waiting -= 1
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            raise TookTooLong
        if code not in (VALID, NOT_VALID):
            log.error("a check failed", extra={"action": "check_failed", "code": code})
            raise CheckerBusy
        return code == VALID


async def _ask(question: bytes) -> int:
    # The environment is empty, because ours may contain secrets, and a check needs none of it.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "tidings.schema_check_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        await process.communicate(question)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode
