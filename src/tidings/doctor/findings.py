# SPDX-License-Identifier: Apache-2.0
"""What a check found, how bad that is, and what the operator should do."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from tidings.config import Config
from tidings.doctor.machine import ThisMachine
from tidings.ports.world import Clock

Level = Literal["fault", "warning", "unknown", "ok"]
LEVELS: Final[tuple[Level, ...]] = ("fault", "warning", "unknown", "ok")
"""All levels, worst first."""
EXIT_CODES: Final[dict[Level, int]] = {"fault": 2, "warning": 1, "unknown": 0, "ok": 0}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about a deployment."""

    check: str = ""
    """Name of the check, which the runner of the checks fills in."""
    level: Level
    what: str
    cure: str = ""
    """What the operator should do; empty if nothing needs to be done."""


def fault(what: str, cure: str) -> Finding:
    """Return a finding that stops the server, loses data or will do so soon."""
    return Finding(level="fault", what=what, cure=cure)


def warning(what: str, cure: str) -> Finding:
    """Return a finding that makes the deployment slower, less safe, or fail some day."""
    return Finding(level="warning", what=what, cure=cure)


def unknown(what: str) -> Finding:
    """Return a finding that says what could not be examined."""
    return Finding(level="unknown", what=what)


def fine(what: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(level="ok", what=what)


@dataclass(frozen=True, slots=True)
class Subject:
    """The deployment that is examined."""

    config: Config
    clock: Clock
    machine: ThisMachine = field(default_factory=ThisMachine)
    server: str | None = None
    """URL of the server that has the data folder open."""
    public_url: str | None = None
    """URL at which clients reach the deployment, through its proxy if it has one."""
    server_certificate: str | None = None
    """Certificate that the server shows to clients, as PEM."""


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the examination."""

    name: str
    look: Callable[[Subject], AsyncIterator[Finding]]
    applies: Callable[[Config], bool] = lambda _: True
