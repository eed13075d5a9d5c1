# SPDX-License-Identifier: Apache-2.0
"""Preferences of users in inboxes: stored beside the read marks, and independent of them."""

from tests.contract.engines import Engine, Store
from tests.contract.inbox_builders import INBOX
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.notifications import InboxConfig
from tidings.model.preferences import CategoryChoice, CategoryRule, Preferences, QuietHours

NIGHT = QuietHours(start="22:00", end="07:00", timezone="Europe/Berlin")
SOME = Preferences(
    categories={"offers": CategoryChoice(in_app=False, email=True)}, quiet_hours=NIGHT
)
TENANT = "acme"


async def test_preferences_are_what_was_put_last(store: Store) -> None:
    await store.preferences.put(
        ANN, INBOX, Preferences(categories={"a": CategoryChoice(push=False)})
    )
    await store.preferences.put(ANN, INBOX, SOME)
    assert (await store.copies.read_state(ANN, INBOX)).preferences == SOME
    assert (await store.copies.read_state(ANN, "other")).preferences is None


async def test_only_those_that_are_as_they_were_are_replaced(store: Store) -> None:
    other = Preferences(uncategorized_email=False)
    await store.copies.read_before(BOB, INBOX, NOW, 1)
    for user in (ANN, BOB):  # one without an item, and one with marks
        assert not await store.preferences.replace(user, INBOX, SOME, other)
        assert (await store.copies.read_state(user, INBOX)).preferences is None
        assert await store.preferences.replace(user, INBOX, None, SOME)
        assert not await store.preferences.replace(user, INBOX, None, other)
        assert await store.preferences.replace(user, INBOX, SOME, other)
        assert (await store.copies.read_state(user, INBOX)).preferences == other


async def test_those_of_some_users_are_found_at_once(store: Store) -> None:
    await store.preferences.put(ANN, INBOX, SOME)
    await store.copies.read_before(BOB, INBOX, NOW, 1)
    assert await store.preferences.of([BOB, ANN], INBOX) == {ANN: SOME}
    assert await store.preferences.of([BOB, ANN], "other") == {}


async def test_neither_marks_nor_preferences_change_each_other(store: Store) -> None:
    await store.copies.read_before(ANN, INBOX, NOW, 3)
    await store.copies.read_broadcasts(ANN, INBOX, [5], NOW)
    await store.preferences.put(ANN, INBOX, SOME)
    await store.copies.read_before(ANN, INBOX, NOW + 1, 4)
    state = await store.copies.read_state(ANN, INBOX)
    assert (state.before, state.announced, state.preferences) == (NOW + 1, 4, SOME)
    assert 5 in state.singly


async def test_an_inbox_says_whether_there_are_preferences(store: Store) -> None:
    rules = {"offers": CategoryRule(in_app=False)}
    config = InboxConfig(title="News", categories=("offers",), category_rules=rules)
    assert not await store.preferences.begin(TENANT, INBOX)
    await store.inbox_settings.put_config(TENANT, INBOX, config)
    assert await store.inbox_settings.config(TENANT, INBOX) == config
    for _ in range(2):
        assert await store.preferences.begin(TENANT, INBOX)
    found = await store.inbox_settings.config(TENANT, INBOX)
    assert found is not None and found.has_preferences
    assert found.category_rules == rules


async def test_a_new_configuration_keeps_that_there_are_preferences(store: Store) -> None:
    await store.inbox_settings.put_config(TENANT, INBOX, InboxConfig(title="News"))
    await store.preferences.begin(TENANT, INBOX)
    assert not await store.inbox_settings.put_config(TENANT, INBOX, InboxConfig(title="Other"))
    found = await store.inbox_settings.config(TENANT, INBOX)
    assert found == InboxConfig(title="Other", has_preferences=True)
    listed = await store.inbox_settings.configs(TENANT, after=None, limit=10)
    assert listed.rows == [(INBOX, found)]


async def test_forgetting_the_marks_forgets_the_preferences(store: Store) -> None:
    await store.preferences.put(ANN, INBOX, SOME)
    await store.preferences.put(BOB, INBOX, SOME)
    await store.personal_data.forget_marks(ANN, INBOX)
    assert await store.preferences.of([ANN, BOB], INBOX) == {BOB: SOME}


async def test_preferences_survive_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.preferences.put(ANN, INBOX, SOME)
    async with engine.open() as store:
        assert (await store.copies.read_state(ANN, INBOX)).preferences == SOME
