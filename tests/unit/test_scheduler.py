# SPDX-License-Identifier: Apache-2.0
"""Turns at a store: between tenants, between users, bounded, and never lost."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.refusals import RateLimited, Refusal, StoreUnavailable
from tidings.ports.store import BACKGROUND, Requester
from tidings.stores.scheduler import Scheduler, Turn, wait_for_turn

ANN, AMY = Requester("acme", "acme:ann"), Requester("acme", "acme:amy")
BOB = Requester("bees", "bees:bob")


@dataclass
class Store:
    """What stands behind a scheduler: it notes who runs, and in which order they began."""

    slots: int = 4
    user_slots: int = 2
    user_waiting_max: int = 100
    waiting_max: int = 1_000
    began: list[Requester] = field(default_factory=list)
    running: list[tuple[Requester, Turn]] = field(default_factory=list)
    turned_away: list[Requester] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(
            "test",
            slots=self.slots,
            user_slots=self.user_slots,
            user_waiting_max=self.user_waiting_max,
            waiting_max=self.waiting_max,
        )

    def ask(self, who: Requester) -> Turn:
        def go(turn: Turn) -> None:
            self.began.append(who)
            self.running.append((who, turn))

        def turn_away(_refusal: Refusal) -> None:
            self.turned_away.append(who)

        return self.scheduler.enter(who, go, turn_away)

    def finish(self, index: int = 0, cost: float = 1.0) -> None:
        _, turn = self.running.pop(index)
        self.scheduler.leave(turn, cost)

    def finish_all(self) -> None:
        while self.running:
            self.finish()


@pytest.mark.attack("S03", "D21")
def test_another_tenant_waits_for_one_turn_however_much_somebody_asks_for() -> None:
    store = Store(slots=1, user_slots=1)
    for _ in range(50):
        store.ask(ANN)
    store.ask(BOB)
    store.finish()
    store.finish()
    assert store.began == [ANN, BOB, ANN]


@pytest.mark.attack("S03", "F04")
def test_a_user_never_has_all_of_the_slots() -> None:
    store = Store(slots=4, user_slots=2)
    for _ in range(10):
        store.ask(ANN)
    store.ask(BOB)
    assert store.began == [ANN, ANN, BOB]


def test_users_of_one_tenant_take_turns_and_have_no_more_than_another_tenant() -> None:
    store = Store(slots=1)
    for who in (ANN, ANN, ANN, AMY, AMY, BOB, BOB):
        store.ask(who)
    store.finish_all()
    assert store.began == [ANN, ANN, BOB, AMY, BOB, ANN, AMY]


def test_who_was_expensive_sits_out_turns() -> None:
    store = Store(slots=1)
    for who in (ANN, ANN, ANN, BOB, BOB, BOB):
        store.ask(who)
    store.finish(cost=3.0)
    store.finish_all()
    assert store.began == [ANN, BOB, BOB, ANN, BOB, ANN]


def test_who_is_alone_sits_out_nothing() -> None:
    store = Store(slots=1)
    for _ in range(3):
        store.ask(ANN)
    store.finish(cost=1e9)
    store.finish(cost=1e9)
    assert store.began == [ANN, ANN, ANN]


def test_background_work_may_use_all_slots_and_has_its_turns() -> None:
    store = Store(slots=3, user_slots=1)
    for _ in range(5):
        store.ask(BACKGROUND)
    assert store.began == [BACKGROUND] * 3
    store.ask(BOB)
    store.finish()
    store.finish()
    assert store.began == [*[BACKGROUND] * 3, BOB, BACKGROUND]


def test_a_tenant_s_backend_has_up_to_half_of_the_slots() -> None:
    store = Store(slots=8, user_slots=2)
    for _ in range(10):
        store.ask(Requester("acme"))
    assert len(store.began) == 4


def test_a_user_with_too_many_waiting_is_refused_and_nobody_else() -> None:
    store = Store(slots=1, user_slots=1, user_waiting_max=2)
    for _ in range(3):
        store.ask(ANN)
    with pytest.raises(RateLimited):
        store.ask(ANN)
    store.ask(AMY)
    store.ask(BOB)
    store.finish_all()
    assert sorted(store.began) == sorted([ANN, ANN, ANN, AMY, BOB])


def test_where_all_places_are_taken_the_loudest_tenant_makes_room() -> None:
    store = Store(slots=1, waiting_max=4)
    for _ in range(5):
        store.ask(ANN)
    with pytest.raises(StoreUnavailable):
        store.ask(AMY)
    store.ask(BOB)
    assert store.turned_away == [ANN]
    store.finish_all()
    assert (store.began.count(ANN), store.began.count(BOB), store.scheduler.waiting) == (4, 1, 0)


def test_leaving_twice_or_before_the_turn_has_come_leaks_nothing() -> None:
    store = Store(slots=1)
    first, second, third = store.ask(ANN), store.ask(BOB), store.ask(AMY)
    store.scheduler.leave(second)
    store.scheduler.leave(first)
    store.scheduler.leave(first)
    assert store.began == [ANN, AMY]
    store.scheduler.leave(third)
    assert (store.scheduler.waiting, store.scheduler.is_idle) == (0, True)


ACTS = st.lists(
    st.tuples(st.sampled_from(["ask", "finish", "give up"]), st.integers(0, 5), st.integers(0, 40)),
    max_size=200,
)


@given(acts=ACTS, slots=st.integers(1, 5), user_slots=st.integers(1, 3))
def test_whatever_happens_bounds_hold_and_everything_runs(
    acts: list[tuple[str, int, int]], slots: int, user_slots: int
) -> None:
    store = Store(slots=slots, user_slots=user_slots, user_waiting_max=10, waiting_max=25)
    people = [BACKGROUND, Requester("a"), *(Requester("a", x) for x in "xy"), BOB, Requester("c")]
    taken: list[Turn] = []
    for act, who, number in acts:
        if act == "ask":
            try:
                taken.append(store.ask(people[who]))
            except (RateLimited, StoreUnavailable):
                assert store.scheduler.waiting >= 10
        elif act == "finish" and store.running:
            store.finish(number % len(store.running), cost=number / 2)
        elif act == "give up" and taken:
            turn = taken.pop(number % len(taken))
            store.running = [one for one in store.running if one[1] is not turn]
            store.scheduler.leave(turn)
        check_bounds(store)
    store.finish_all()
    assert store.scheduler.is_idle, "a slot was lost"
    assert all(turn.is_over for turn in taken)


def check_bounds(store: Store) -> None:
    """No more than allowed run, and no slot is free while somebody could use it."""
    running = [who for who, _ in store.running]
    assert len(running) <= store.slots
    users = [who for who in running if who.tenant]
    for who in users:
        most = store.user_slots if who.user else max(store.user_slots, store.slots // 2)
        assert users.count(who) <= most
    if store.scheduler.waiting and len(running) < store.slots:
        assert users, "who waits is held back by an own bound, or the slots are full"


@given(loud=st.integers(1, 60), quiet=st.integers(1, 5), slots=st.integers(1, 4))
def test_a_quiet_tenant_is_never_starved(loud: int, quiet: int, slots: int) -> None:
    store = Store(slots=slots, user_slots=slots)
    for _ in range(loud + slots):
        store.ask(ANN)
    for _ in range(quiet):
        store.ask(BOB)
    for _ in range(2 * quiet + 1):
        if store.running:
            store.finish()
    assert store.began.count(BOB) == quiet


async def test_a_turn_can_be_waited_for_and_given_up() -> None:
    scheduler = Scheduler("test", slots=1, user_slots=1, user_waiting_max=10, waiting_max=10)
    first = await wait_for_turn(scheduler, ANN)
    gives_up, waits = [asyncio.ensure_future(wait_for_turn(scheduler, BOB)) for _ in range(2)]
    await asyncio.sleep(0)
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    with pytest.raises(TimeoutError):
        await wait_for_turn(scheduler, AMY, asyncio.get_running_loop().time())
    scheduler.leave(first)
    scheduler.leave(await waits)
    assert scheduler.is_idle


async def test_a_turn_that_came_in_the_moment_it_was_given_up_is_passed_on() -> None:
    scheduler = Scheduler("test", slots=1, user_slots=1, user_waiting_max=10, waiting_max=10)
    first = await wait_for_turn(scheduler, ANN)
    second = asyncio.ensure_future(wait_for_turn(scheduler, BOB))
    await asyncio.sleep(0)
    scheduler.leave(first)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert scheduler.is_idle
