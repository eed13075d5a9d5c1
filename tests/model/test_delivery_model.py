# SPDX-License-Identifier: Apache-2.0
"""One entry on its way to one device, whose connections die and come back, in every order.

Whoever delivers an entry looks up where the device is connected and hands it over; a device that
connects registers first and then reads what it missed (hello: `gateway/stream.py`). The two run
side by side. The model asks whether a device can end up connected, live, and without the entry.

In one process, which is the product as it stands, hello reads the log itself and fan-out
(`delivery/fan_out.py`) looks once, after the commit. Between processes hello reads the copy of the
head that the delivering worker writes, and routes of dead connections stay behind; there the
worker has to look a second time, for every connection, after it has written that copy.
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
]
SCHEMES: Final[dict[Scheme, Literal["delivered", "lost"]]] = {
    "one process": "delivered",
    "one process, hello reads before it registers": "lost",
    "a marker for whom the look-up missed": "lost",
    "head, then a second look-up for whom the first missed": "lost",
    "head, then a second look-up for all": "delivered",
}
RECONNECTS: Final = 2
STATES_MIN: Final = 100


class World(NamedTuple):
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
        self._looks_again_for_all = scheme == "head, then a second look-up for all"
        self._registers_first = scheme != "one process, hello reads before it registers"

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """Everything that can happen next."""
        yield from self.progress(world)
        if world.connection is not None and world.reconnects_left:
            # Without an attempt left it would stay away, and nothing could be said about it.
            survives = None if world.on_its_way == world.connection else world.on_its_way
            dead = world._replace(connection=None, on_its_way=survives)
            yield "the connection dies, its route stays", dead
            if world.route == world.connection:
                yield "the connection dies", dead._replace(route=None)

    def progress(self, world: World) -> Iterator[tuple[str, World]]:
        """All that happens by itself, sooner or later: everything but a death."""
        yield from self._delivering(world)
        yield from self._connecting(world)
        if world.on_its_way is not None:
            arrived = world._replace(on_its_way=None)
            if world.on_its_way == world.connection:
                is_marked = world.is_marked and not self._has_marker
                yield "the frame arrives", arrived._replace(has_entry=True, is_marked=is_marked)
            else:
                yield "the frame is lost", arrived

    def _delivering(self, world: World) -> Iterator[tuple[str, World]]:
        is_held = world.route is not None and world.route == world.connection
        if not world.is_stored:
            yield "the entry is stored", world._replace(is_stored=True)
        elif world.worker == "waiting":
            looked = world._replace(worker="done" if self._is_one_process else "looked up")
            if is_held:
                handed = looked._replace(handed_to=world.route, on_its_way=world.route)
                yield "look-up 1: handed over", handed
            else:
                yield "look-up 1: not connected", looked
        elif world.worker == "looked up":
            yield self._tell(world)
        elif world.worker == "told":
            done = world._replace(worker="done")
            is_due = self._looks_again_for_all or world.handed_to is None
            if is_held and is_due and world.route != world.handed_to:
                yield "look-up 2: handed over", done._replace(on_its_way=world.route)
            else:
                yield "look-up 2: nothing to do", done

    def _tell(self, world: World) -> tuple[str, World]:
        if not self._has_marker:
            return "the head is written", world._replace(worker="told", is_in_head=True)
        if world.handed_to is None:
            return "the marker is written", world._replace(worker="told", is_marked=True)
        return "nothing to mark", world._replace(worker="done")

    def _connecting(self, world: World) -> Iterator[tuple[str, World]]:
        if world.connection is None:
            if world.reconnects_left:
                left = world.reconnects_left - 1
                fresh = world._replace(
                    connection=1 + RECONNECTS - left, reconnects_left=left, hello="begun"
                )
                yield "the device connects", fresh
            return
        if world.hello == "begun":
            if self._registers_first:
                yield "hello registers", self._registered(world)._replace(hello="registered")
            else:
                yield "hello reads", self._read(world)._replace(hello="registered")
        elif world.hello == "registered":
            if self._registers_first:
                yield "hello reads", self._read(world)._replace(hello="live")
            else:
                yield "hello registers", self._registered(world)._replace(hello="live")

    def _registered(self, world: World) -> World:
        return world._replace(route=world.connection)

    def _read(self, world: World) -> World:
        if self._is_one_process:
            return world._replace(has_entry=world.has_entry or world.is_stored)
        if self._has_marker:
            return world._replace(has_entry=world.has_entry or world.is_marked, is_marked=False)
        return world._replace(has_entry=world.has_entry or world.is_in_head)


def explore(scheme: Scheme) -> tuple[int, list[str] | None]:
    """How many states there are, and a shortest way to lose the entry, if there is one."""
    model = Model(scheme)
    exploration = Exploration(World(), model.moves)
    for world in exploration.states:
        is_waiting = world.connection is not None and world.hello == "live" and not world.has_entry
        if is_waiting and not any(model.progress(world)):
            return len(exploration), exploration.way_to(world)
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
