# SPDX-License-Identifier: Apache-2.0
"""Reaches services of a deployment, measures how fast they answer, and compares their clocks."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import urlsplit

from tidings.doctor.findings import Finding, Subject, fault, fine, unknown, warning
from tidings.model.limits import SECOND_MS
from tidings.model.setup_error import SetupError

CONNECT_SECONDS_MAX: Final = 5.0
TRIES: Final = 5
CLOCK_MS_WARN: Final = 2 * SECOND_MS
"""Difference of two clocks from which the doctor warns. Travel time and times in whole seconds
explain smaller ones."""
CLOCK_MS_MAX: Final = 10 * SECOND_MS
"""Tokens allow for this difference between clocks."""
PORTS: Final = {"http": 80, "https": 443, "redis": 6_379, "rediss": 6_379}

T = TypeVar("T")


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a URL, or of host:port."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


async def reach(url: str) -> None:
    """Open a connection and close it again.

    Raises:
        SetupError: The service cannot be reached.
    """
    host, port = address_of(url)
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        raise SetupError(f"{host}:{port} cannot be reached: {reason}") from error
    writer.close()


async def reached_in(ask: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """Ask several times; return the last answer and the median of the times in seconds."""
    answer = await ask()  # opens the connection
    took = []
    for _ in range(TRIES):
        began = monotonic()
        answer = await ask()
        took.append(monotonic() - began)
    return answer, statistics.median(took)


def judge_latency(service: str, seconds: float, slow: float) -> Finding:
    """Return a finding about how fast a service answers."""
    told = f"{service} answers in {seconds * 1_000:.1f} ms"
    if seconds <= slow:
        return fine(told)
    return warning(
        told, f"run the servers near {service}, and look whether it or the network is overloaded"
    )


def compare_clocks(subject: Subject, service: str, date: str | None) -> Finding:
    """Return a finding about the clock of a service, whose answer has this `Date` header."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except ValueError:
        return unknown(f"{service} does not tell its time")
    return judge_clocks(subject, service, int(theirs.timestamp()) * SECOND_MS)


def judge_clocks(subject: Subject, service: str, theirs: int) -> Finding:
    """Return a finding about the difference to the clock of a service."""
    ahead = subject.clock.now() - theirs
    if abs(ahead) <= CLOCK_MS_WARN:
        return fine(f"the clocks of this machine and {service} agree")
    way = "ahead of" if ahead > 0 else "behind"
    told = f"the clock of this machine is {abs(ahead) / SECOND_MS:,.0f} s {way} that of {service}"
    cure = "synchronise both with NTP (chronyc tracking)"
    return fault(told, cure) if abs(ahead) > CLOCK_MS_MAX else warning(told, cure)
