# SPDX-License-Identifier: Apache-2.0
"""One entry on its way to one device, whose connections die and come back, in every order.

Whoever delivers an entry looks up where the device is connected and hands it over; a device that
connects registers first and then reads what it missed (hello: `gateway/stream.py`). The two run
side by side. The model asks whether a device can end up connected, live, and without the entry.

In one process, which is the product as it stands, hello reads the log itself and fan-out
(`delivery/fan_out.py`) looks once, after the commit. Between processes hello reads the copy of the
head that the delivering worker writes, and routes of dead connections stay behind; there the
worker has to look a second time, for every connection, after it has written that copy.

In a direct chat, the copy for the sender's own devices is in the sender's row. The sender's gateway
usually writes it with the sender's mark, at some time or never; delivery must not rely on that.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import pytest

from tests.model.exploring import Exploration

Scheme = Literal[
    "one process",
    "one process, hello reads before it registers",
    "a marker for whom the look-up missed",
    "head, then a second look-up for whom the first missed",
    "head, then a second look-up for all",
    "head by the sender's mark alone",
    "head by the sender's mark or else by delivery",
]
SCHEMES: Final[dict[Scheme, Literal["delivered", "lost"]]] = {
    "one process": "delivered",
    "one process, hello reads before it registers": "lost",
    "a marker for whom the look-up missed": "lost",
    "head, then a second look-up for whom the first missed": "lost",
    "head, then a second look-up for all": "delivered",
    "head by the sender's mark alone": "lost",
    "head by the sender's mark or else by delivery": "delivered",
}
RECONNECTS: Final = 2
STATES_MIN: Final = 100


class State(NamedTuple):
    """The entry, who delivers it, and the device. Connections are numbered; None is none."""

    is_stored: bool = False
    worker: Literal["waiting", "looked up", "told", "done"] = "waiting"
    handed_to: int | None = None
    """The connection that the first look-up handed the entry to."""
    is_marked: bool = False
    """The device's marker: something waits for it."""
    is_in_head: bool = False
    """The copy of the head has reached the entry."""
    route: int | None = 1
    """The connection under which the registry knows the device; it may be dead."""
    connection: int | None = 1
    hello: Literal["begun", "registered", "live"] = "live"
    has_entry: bool = False
    on_its_way: int | None = None
    """The connection on which a frame with the entry travels."""
    reconnects_left: int = RECONNECTS


class Model:
    """All moves under one scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self._has_marker = scheme == "a marker for whom the look-up missed"
        self._is_one_process = scheme.startswith("one process")
        self._has_mark = scheme.startswith("head by the sender's mark")
        self._relies_on_mark = scheme == "head by the sender's mark alone"
        self._looks_again_for_all = (
            self._has_mark or scheme == "head, then a second look-up for all"
        )
        self._registers_first = scheme != "one process, hello reads before it registers"

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Everything that can happen next."""
        yield from self.progress(state)
        if self._has_mark and state.is_stored and not state.is_in_head:
            yield "the sender's mark moves", state._replace(is_in_head=True)
        if state.connection is not None and state.reconnects_left:
            # Without an attempt left it would stay away, and nothing could be said about it.
            survives = None if state.on_its_way == state.connection else state.on_its_way
            dead = state._replace(connection=None, on_its_way=survives)
            yield "the connection dies, its route stays", dead
            if state.route == state.connection:
                yield "the connection dies", dead._replace(route=None)

    def progress(self, state: State) -> Iterator[tuple[str, State]]:
        """All that happens by itself, sooner or later: everything but a death."""
        yield from self._delivering(state)
        yield from self._connecting(state)
        if state.on_its_way is not None:
            arrived = state._replace(on_its_way=None)
            if state.on_its_way == state.connection:
                is_marked = state.is_marked and not self._has_marker
                yield "the frame arrives", arrived._replace(has_entry=True, is_marked=is_marked)
            else:
                yield "the frame is lost", arrived

    def _delivering(self, state: State) -> Iterator[tuple[str, State]]:
        is_held = state.route is not None and state.route == state.connection
        if not state.is_stored:
            yield "the entry is stored", state._replace(is_stored=True)
        elif state.worker == "waiting":
            looked = state._replace(worker="done" if self._is_one_process else "looked up")
            if is_held:
                handed = looked._replace(handed_to=state.route, on_its_way=state.route)
                yield "look-up 1: handed over", handed
            else:
                yield "look-up 1: not connected", looked
        elif state.worker == "looked up":
            yield self._tell(state)
        elif state.worker == "told":
            done = state._replace(worker="done")
            is_due = self._looks_again_for_all or state.handed_to is None
            if is_held and is_due and state.route != state.handed_to:
                yield "look-up 2: handed over", done._replace(on_its_way=state.route)
            else:
                yield "look-up 2: nothing to do", done

    def _tell(self, state: State) -> tuple[str, State]:
        if self._relies_on_mark:
            return "the other's row is written", state._replace(worker="told")
        if not self._has_marker:
            return "the head is written", state._replace(worker="told", is_in_head=True)
        if state.handed_to is None:
            return "the marker is written", state._replace(worker="told", is_marked=True)
        return "nothing to mark", state._replace(worker="done")

    def _connecting(self, state: State) -> Iterator[tuple[str, State]]:
        if state.connection is None:
            if state.reconnects_left:
                left = state.reconnects_left - 1
                fresh = state._replace(
                    connection=1 + RECONNECTS - left, reconnects_left=left, hello="begun"
                )
                yield "the device connects", fresh
            return
        if state.hello == "begun":
            if self._registers_first:
                yield "hello registers", self._registered(state)._replace(hello="registered")
            else:
                yield "hello reads", self._read(state)._replace(hello="registered")
        elif state.hello == "registered":
            if self._registers_first:
                yield "hello reads", self._read(state)._replace(hello="live")
            else:
                yield "hello registers", self._registered(state)._replace(hello="live")

    def _registered(self, state: State) -> State:
        return state._replace(route=state.connection)

    def _read(self, state: State) -> State:
        if self._is_one_process:
            return state._replace(has_entry=state.has_entry or state.is_stored)
        if self._has_marker:
            return state._replace(has_entry=state.has_entry or state.is_marked, is_marked=False)
        return state._replace(has_entry=state.has_entry or state.is_in_head)


def explore(scheme: Scheme) -> tuple[int, list[str] | None]:
    """How many states there are, and a shortest way to lose the entry, if there is one."""
    model = Model(scheme)
    exploration = Exploration(State(), model.moves)
    for state in exploration.states:
        is_waiting = state.connection is not None and state.hello == "live" and not state.has_entry
        if is_waiting and not any(model.progress(state)):
            return len(exploration), exploration.way_to(state)
    return len(exploration), None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_entry_reaches_a_device_that_stays_connected(scheme: Scheme) -> None:
    states, way_to_lose_it = explore(scheme)
    assert states > STATES_MIN
    if SCHEMES[scheme] == "delivered":
        assert way_to_lose_it is None
    else:
        assert way_to_lose_it is not None


def test_the_marker_fails_when_a_handed_over_frame_dies_with_its_connection() -> None:
    _, way = explore("a marker for whom the look-up missed")
    assert way == [
        "the entry is stored",
        "look-up 1: handed over",
        "nothing to mark",
        "the connection dies, its route stays",
        "the device connects",
        "hello registers",
        "hello reads",
    ]
