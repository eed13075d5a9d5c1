# SPDX-License-Identifier: Apache-2.0
"""The due items in memory: how many a tenant may have, and when more of them are read."""

import pytest

from tests.support.clock import NOW
from tests.unit.timer_world import an_item
from tidings.delivery import due_memory
from tidings.delivery.due_memory import HeldItems


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 4)


def test_a_tenant_has_enough_until_half_are_done() -> None:
    held, items = HeldItems(), [an_item(str(number)) for number in range(6)]
    assert held.take(items, NOW), "some have to wait"
    assert held.crowded("message") == [items[0].tenant]
    assert held.crowded("inbox") == []
    held.let_go(items[0])
    assert held.crowded("message") == [items[0].tenant]
    held.let_go(items[1])
    assert held.crowded("message") == []
    assert not held.take(items[2:], NOW)
    assert held.crowded("message") == [items[0].tenant]


def test_others_have_their_own_room() -> None:
    held, items = HeldItems(), [an_item(str(number)) for number in range(4)]
    held.take(items, NOW)
    assert not held.take([an_item("other", tenant="b")], NOW)
    assert (len(held), held.crowded("message")) == (5, [items[0].tenant])
