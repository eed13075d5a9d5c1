# SPDX-License-Identifier: Apache-2.0
"""Waits for conditions in tests; tests use nothing else to wait."""

import asyncio
import inspect
import reprlib
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, TypeVar, overload

import anyio

T = TypeVar("T")

WAIT_SECONDS: Final = 60.0
"""Maximum time to wait. A busy machine may need this long for something that is usually
immediate."""
LOOK_SECONDS_MIN: Final = 0.001
LOOK_SECONDS_MAX: Final = 0.1
SHOWN_CHARACTERS_MAX: Final = 2_000
TURNS: Final = 100

_TRUTHY: Final = object()


class NotInTime(AssertionError):
    """A condition was not met in time."""


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]],
    *,
    equals: object = ...,
    describe: Callable[[], object] | None = ...,
    changed: Callable[[], asyncio.Event] | None = ...,
    seconds: float = ...,
) -> T: ...


@overload
async def until(
    condition: Callable[[], T | None],
    *,
    equals: object = ...,
    describe: Callable[[], object] | None = ...,
    changed: Callable[[], asyncio.Event] | None = ...,
    seconds: float = ...,
) -> T: ...


async def until(
    condition: Callable[[], Any],
    *,
    equals: object = _TRUTHY,
    describe: Callable[[], object] | None = None,
    changed: Callable[[], asyncio.Event] | None = None,
    seconds: float = WAIT_SECONDS,
) -> Any:
    """Wait until a condition is true, or equals a value; return its last value.

    Args:
        condition: Function that is called repeatedly; it may be asynchronous.
        equals: The expected value; by default, any true value.
        describe: Returns a text that the error shows in addition.
        changed: Returns an event that is set before the next call of the condition; by default,
            the condition is called often at first, and then ten times a second.
        seconds: The maximum time to wait.

    Raises:
        NotInTime: The condition was not met in time; the text shows it and its last value.
    """
    seen: object = "nothing: the first look did not end"
    began = monotonic()
    # Unlike a timeout of asyncio, this one lets an HTTP client close its connections at the end.
    with anyio.move_on_after(seconds):
        while True:
            given = condition()
            seen = await given if inspect.isawaitable(given) else given
            if bool(seen) if equals is _TRUTHY else seen == equals:
                return seen
            await (changed().wait() if changed else _a_moment(monotonic() - began))
    wanted = "" if equals is _TRUTHY else f"\nto be: {_shown(equals)}"
    more = "" if describe is None else f"\nthere was: {_shown(describe())}"
    raise NotInTime(
        f"waited {monotonic() - began:.1f} s for: {_source(condition)}{wanted}"
        f"\nseen last: {_shown(seen)}{more}{_variables(condition)}"
    )


async def retried(work: Callable[[], Awaitable[T]], *errors: type[Exception]) -> T:
    """Repeat the work until it raises none of these errors; return its result."""
    results: list[T] = []
    last: list[Exception] = []

    async def is_done() -> bool:
        try:
            results.append(await work())
        except errors as error:
            last[:] = [error]
        return bool(results)

    await until(is_done, describe=lambda: (_source(work), last))
    return results[0]


async def after_timers(seconds: float) -> None:
    """Wait until all timers that were set before this call for at most `seconds` have fired.

    Timers fire in the order of their deadlines, so a new timer of this length fires after them.
    """
    is_over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, is_over.set)
    await is_over.wait()


async def some_turns() -> None:
    """Let all tasks go on that wait for nothing but their turn."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _a_moment(waited: float) -> None:
    await asyncio.sleep(min(LOOK_SECONDS_MIN + waited / 4, LOOK_SECONDS_MAX))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"…{text[-SHOWN_CHARACTERS_MAX:]}"


def _source(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):  # not a function, or one without a file
        return repr(condition)


def _variables(condition: Callable[[], object]) -> str:
    """Return the variables of the condition as text."""
    if not inspect.isfunction(condition):
        return ""
    found = inspect.getclosurevars(condition).nonlocals
    return "".join(f"\n  {name} = {reprlib.repr(value)}" for name, value in found.items())
