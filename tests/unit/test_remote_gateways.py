# SPDX-License-Identifier: Apache-2.0
"""The other gateways, as one of them sees them."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.users import BOB
from tests.unit.small_deployment import ALICE, CHAT
from tidings.model.ids import UserKey
from tidings.ports.bus import Retracted
from tidings.ports.delivery import ConnectionAddress, RegistryUnavailable, RemoteGateways

HINT = Retracted("acme", "news", "n1")


class Registered:
    """A registry of fixed connections, which may be out of reach."""

    def __init__(self, **gateways: list[UserKey]) -> None:
        self._gateways = gateways
        self.is_up = True

    async def find(self, users: Iterable[UserKey]) -> dict[UserKey, list[ConnectionAddress]]:
        if not self.is_up:
            raise RegistryUnavailable
        return {
            user: [
                ConnectionAddress(gateway, f"{user} {number}")
                for gateway, there in self._gateways.items()
                if user in there
                for number in range(2)
            ]
            for user in users
        }


class Sent:
    """A handover that keeps a list of what was sent."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def notice(self, *given: object) -> None:
        self.calls.append(given)

    def hint(self, *given: object, but_not: str) -> None:
        self.calls.append((*given, but_not))


@pytest.fixture
def sent() -> Sent:
    return Sent()


def gateways(registry: Registered, sent: Sent) -> RemoteGateways:
    ports: Any = (registry, sent, "here")
    return RemoteGateways(*ports)


async def test_a_user_is_found_once_on_each_other_gateway(sent: Sent) -> None:
    registry = Registered(here=[ALICE, BOB], there=[ALICE, BOB], far=[BOB])
    found = await gateways(registry, sent).find([ALICE, BOB])
    assert found == {"there": [ALICE, BOB], "far": [BOB]}


async def test_without_the_registry_nobody_is_found(sent: Sent) -> None:
    registry = Registered(there=[ALICE])
    registry.is_up = False
    assert await gateways(registry, sent).find([ALICE]) == {}


def test_frames_go_where_somebody_is(sent: Sent) -> None:
    remote = gateways(Registered(), sent)
    remote.send(b"nobody", {})
    remote.send(b"frame", {"there": [ALICE]}, CHAT)
    assert sent.calls == [(b"frame", {"there": [ALICE]}, CHAT)]


def test_hints_go_to_one_gateway_or_to_all_but_this(sent: Sent) -> None:
    remote = gateways(Registered(), sent)
    remote.hint(HINT, "there")
    remote.hint(HINT)
    assert sent.calls == [(HINT, "there", "here"), (HINT, None, "here")]
