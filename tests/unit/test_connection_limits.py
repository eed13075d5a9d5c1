# SPDX-License-Identifier: Apache-2.0
"""How many connections there may be, and who has to go for whom."""

import ipaddress

import pytest

from tidings.gateway.http.connection_limits import ConnectionClass, ConnectionLimits, Slot
from tidings.model import limits as all_limits

HOME = "203.0.113.9"
OTHER = "198.51.100.7"
PROXY = "192.0.2.1"
DESCRIPTORS = 200


class Crowd:
    """Connections, and those of them that were told to close."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.open: list[Slot] = []
        self.closed: list[Slot] = []

    def comes(self, kind: ConnectionClass = ConnectionClass.HTTP, peer: str = HOME) -> Slot | None:
        slot = self._limits.enter(kind, peer)
        if slot is not None:
            slot.close = lambda: self._close(slot)
            self.open.append(slot)
        return slot

    def count(self, kind: ConnectionClass) -> int:
        return len([slot for slot in self.open if slot.kind is kind])

    def _close(self, slot: Slot) -> None:
        self.closed.append(slot)
        self.open.remove(slot)
        self._limits.leave(slot)


@pytest.fixture
def limits() -> ConnectionLimits:
    return ConnectionLimits(DESCRIPTORS, (ipaddress.ip_network(PROXY),))


@pytest.fixture
def crowd(limits: ConnectionLimits) -> Crowd:
    return Crowd(limits)


def lanes(
    crowd: Crowd, peer: str, kind: ConnectionClass = ConnectionClass.HTTP
) -> list[ConnectionClass | None]:
    """As what 200 connections are let in, one after the other, none of them idle."""
    slots = [crowd.comes(kind, peer) for _ in range(DESCRIPTORS)]
    return [None if slot is None else slot.kind for slot in slots]


@pytest.mark.attack("S08")
def test_one_address_gets_a_part_of_the_connections(crowd: Crowd) -> None:
    got = lanes(crowd, HOME)
    assert 1 <= got.count(ConnectionClass.HTTP) <= DESCRIPTORS // 8
    assert got.count(None) == DESCRIPTORS - got.count(ConnectionClass.HTTP)
    assert crowd.comes(peer=OTHER) is not None


@pytest.mark.parametrize("peer", [PROXY, "127.0.0.1", "::1"])
def test_a_proxy_gets_what_there_is_but_for_sockets_and_the_reserve(
    crowd: Crowd, peer: str
) -> None:
    lanes(crowd, peer)
    lanes(crowd, peer, ConnectionClass.SOCKET)
    assert crowd.count(ConnectionClass.HTTP) > DESCRIPTORS // 4
    assert crowd.count(ConnectionClass.SOCKET) >= crowd.count(ConnectionClass.HTTP)
    assert crowd.count(ConnectionClass.RESERVE) >= 4
    assert len(crowd.open) < DESCRIPTORS - all_limits.OWN_DESCRIPTORS


def test_networks_of_ipv6_are_one_address(crowd: Crowd) -> None:
    slots = [crowd.comes(peer=f"2001:db8::{number:x}") for number in range(100)]
    assert None in slots
    assert crowd.comes(peer="2001:db8:0:1::1") is not None


def test_sockets_leave_room_for_requests(crowd: Crowd) -> None:
    sockets = lanes(crowd, PROXY, ConnectionClass.SOCKET)
    assert None in sockets
    slot = crowd.comes(peer=PROXY)
    assert slot is not None
    assert slot.kind is ConnectionClass.HTTP


def test_the_longest_idle_has_to_go_for_a_new_one(limits: ConnectionLimits, crowd: Crowd) -> None:
    slots = [slot for _ in range(30) if (slot := crowd.comes(peer=PROXY))]
    while (slot := crowd.comes(peer=PROXY)) is not None and slot.kind is ConnectionClass.HTTP:
        pass
    limits.idle(slots[3])
    limits.idle(slots[1])
    limits.idle(slots[2])
    limits.busy(slots[3])
    assert crowd.comes(peer=OTHER) is not None
    assert crowd.comes(ConnectionClass.HTTP, PROXY) is not None
    assert crowd.closed == [slots[1], slots[2]]


def test_an_address_that_is_full_gives_up_its_own(limits: ConnectionLimits, crowd: Crowd) -> None:
    mine = [slot for _ in range(DESCRIPTORS) if (slot := crowd.comes())]
    other = crowd.comes(peer=OTHER)
    assert other is not None
    limits.idle(other)
    assert crowd.comes() is None
    limits.idle(mine[0])
    assert crowd.comes() is not None
    assert crowd.closed == [mine[0]]


def test_who_holds_the_reserve_without_a_request_gives_way(
    limits: ConnectionLimits, crowd: Crowd
) -> None:
    while (used := crowd.comes(peer=PROXY)) is None or used.kind is not ConnectionClass.RESERVE:
        pass
    limits.use_reserve(used)
    for _ in range(50):
        assert crowd.comes(peer=PROXY) is not None, "the oldest without a request is closed for it"
    assert crowd.closed
    assert used not in crowd.closed


def test_keep_alive_is_short_when_connections_are_scarce(
    limits: ConnectionLimits, crowd: Crowd
) -> None:
    assert limits.keep_alive_seconds == all_limits.KEEP_ALIVE_MS // 1_000
    slots = [crowd.comes(peer=PROXY) for _ in range(DESCRIPTORS)]
    assert limits.keep_alive_seconds == all_limits.SCARCE_KEEP_ALIVE_MS // 1_000
    for slot in slots:
        if slot is not None:
            limits.leave(slot)
            limits.leave(slot)
    assert limits.keep_alive_seconds == all_limits.KEEP_ALIVE_MS // 1_000


def test_a_connection_becomes_a_socket_if_there_is_room(
    limits: ConnectionLimits, crowd: Crowd
) -> None:
    slot = crowd.comes()
    assert slot is not None
    assert limits.move_to_sockets(slot)
    assert (slot.kind, slot.address) == (ConnectionClass.SOCKET, None)
    lanes(crowd, PROXY, ConnectionClass.SOCKET)
    late = crowd.comes(peer=OTHER)
    assert late is not None
    assert not limits.move_to_sockets(late)


@pytest.mark.parametrize("descriptors", [32, 64, 200, 1_024, 4_096])
def test_all_together_stay_below_the_descriptors(descriptors: int) -> None:
    limits = ConnectionLimits(descriptors)
    crowd = Crowd(limits)
    for kind in (ConnectionClass.HTTP, ConnectionClass.SOCKET):
        for _ in range(descriptors):
            crowd.comes(kind, "127.0.0.1")
    assert len(crowd.open) + limits.undecided_max < descriptors


@pytest.mark.attack("S08", "C04")
def test_one_address_cannot_take_all_sockets_with_handshakes_that_do_not_end(
    limits: ConnectionLimits,
) -> None:
    crowd = Crowd(limits)
    while crowd.comes(ConnectionClass.SOCKET):
        assert len(crowd.open) < DESCRIPTORS
    assert crowd.comes(ConnectionClass.SOCKET, OTHER) is not None
    assert limits.move_to_sockets(crowd.open[0])
    assert crowd.comes(ConnectionClass.SOCKET) is not None, (
        "an open socket is counted by its handshake"
    )
