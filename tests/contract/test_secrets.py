# SPDX-License-Identifier: Apache-2.0
"""Data keys and the values of the deployment."""

import asyncio

from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, some_users
from tidings.model.ids import UserKey
from tidings.ports.secrets import WrappedKey
from tidings.ports.sessions import Revocation


def a_key(
    author: UserKey, wrapped: bytes = b"wrapped", master: str = "m1", generation: int = 1
) -> WrappedKey:
    return WrappedKey(author=author, generation=generation, wrapped=wrapped, master_key_id=master)


async def destroy(store: Store, author: UserKey) -> None:
    generation = await store.data_keys.end(author, NOW)
    assert generation is not None
    await store.data_keys.destroy(author, generation, NOW + 1)


async def test_an_author_has_one_key(store: Store) -> None:
    assert await store.data_keys.current(ANN) is None

    assert await store.data_keys.add(a_key(ANN, b"first", generation=99)) == a_key(ANN, b"first")
    assert await store.data_keys.add(a_key(ANN, b"second")) == a_key(ANN, b"first")

    assert await store.data_keys.current(ANN) == a_key(ANN, b"first")
    assert await store.data_keys.get(ANN, 1) == a_key(ANN, b"first")
    assert await store.data_keys.get(ANN, 2) is None
    assert await store.data_keys.current(BOB) is None


async def test_of_many_keys_added_at_once_one_counts(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(store.data_keys.add(a_key(ANN, b"%d" % number)))
            for number in range(5)
        ]
    assert {task.result() for task in tasks} == {await store.data_keys.current(ANN)}


async def test_a_destroyed_key_is_gone_and_its_generation_used_up(store: Store) -> None:
    await store.data_keys.add(a_key(ANN))
    await store.data_keys.add(a_key(BOB))

    await destroy(store, ANN)
    assert await store.data_keys.end(ANN, NOW) is None
    assert await store.data_keys.current(ANN) is None
    assert await store.data_keys.get(ANN, 1) is None

    fresh = a_key(ANN, b"fresh", generation=2)
    assert await store.data_keys.add(a_key(ANN, b"fresh")) == fresh
    assert await store.data_keys.current(ANN) == fresh
    assert await store.data_keys.get(ANN, 1) is None
    assert await store.data_keys.current(BOB) == a_key(BOB)


async def test_the_feed_is_told_that_a_key_is_ending_and_nobody_is_given_it(store: Store) -> None:
    await store.data_keys.add(a_key(ANN))

    assert await store.data_keys.end(ANN, NOW) == 1

    told = await store.revocations.after(0)
    assert told[0] == Revocation(kind="data_key", subject=ANN, at=NOW)
    assert await store.data_keys.get(ANN, 1) is None
    current = await store.data_keys.current(ANN)
    assert current is None or current.is_ending

    await store.data_keys.end(ANN, NOW + 1)
    assert await store.revocations.after(0) == told, "once is enough"


async def test_the_feed_names_an_author_once_whose_key_was_destroyed(store: Store) -> None:
    await store.data_keys.add(a_key(ANN))
    await destroy(store, ANN)
    await store.data_keys.destroy(ANN, 1, NOW + 2)

    kinds = [(one.kind, one.subject) for one in await store.revocations.after(0)]
    assert kinds == [("data_key", ANN), ("author", ANN)]
    (erasure,) = await store.revocations.erasures("acme", 0, 10)
    assert (erasure.position, erasure.author) == (2, ANN)
    assert NOW <= erasure.at <= NOW + 1, "when the key was destroyed: on SQLite as soon as it ended"


async def test_destroying_late_leaves_a_later_key(store: Store) -> None:
    await store.data_keys.add(a_key(ANN))
    await destroy(store, ANN)
    fresh = await store.data_keys.add(a_key(ANN, b"fresh"))

    await store.data_keys.destroy(ANN, 1, NOW)
    assert await store.data_keys.current(ANN) == fresh

    await store.data_keys.end(ANN, NOW)
    ending = await store.data_keys.current(ANN)
    await store.data_keys.destroy(ANN, 1, NOW)
    assert await store.data_keys.current(ANN) == ending


async def test_keys_are_rewrapped_step_by_step(store: Store) -> None:
    authors = some_users(5)
    for author, master in zip(authors, ["m1", "m2", "m3", "m1", "m1"], strict=True):
        await store.data_keys.add(a_key(author, master=master))
    await destroy(store, authors[4])

    steps = []
    while keys := await store.data_keys.wrapped_by_others("m2", 2):
        steps.append(len(keys))
        await store.data_keys.rewrap(
            [a_key(key.author, b"again", "m2", key.generation) for key in keys]
        )

    assert sum(steps) == 3
    assert max(steps) <= 2
    now = [await store.data_keys.current(author) for author in authors]
    assert now == [
        a_key(authors[0], b"again", "m2"),
        a_key(authors[1], b"wrapped", "m2"),
        a_key(authors[2], b"again", "m2"),
        a_key(authors[3], b"again", "m2"),
        None,
    ]


async def test_rewrapping_brings_no_key_back(store: Store) -> None:
    await store.data_keys.add(a_key(ANN))
    await destroy(store, ANN)

    await store.data_keys.rewrap([a_key(ANN, b"again", "m2"), a_key(CAT, b"never", "m2")])

    assert await store.data_keys.current(ANN) is None
    assert await store.data_keys.get(ANN, 1) is None
    assert await store.data_keys.current(CAT) is None


async def test_keys_and_secrets_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.data_keys.add(a_key(ANN))
        await store.data_keys.add(a_key(BOB))
        await destroy(store, BOB)
        await store.deployment.keep_first_sealed("pepper", "m1", b"sealed")
        epoch = store.deployment.epoch

    async with engine.open() as store:
        assert await store.data_keys.current(ANN) == a_key(ANN)
        assert await store.data_keys.current(BOB) is None
        assert (await store.data_keys.add(a_key(BOB))).generation == 2
        assert await store.deployment.sealed("pepper") == ("m1", b"sealed")
        assert store.deployment.epoch == epoch


async def test_a_sealed_secret_is_replaced(store: Store) -> None:
    assert await store.deployment.sealed("pepper") is None
    replace = store.deployment.replace_sealed
    assert not await replace("pepper", ("m1", b"one"), "m1", b"one")
    one = await store.deployment.keep_first_sealed("pepper", "m1", b"one")
    await store.deployment.keep_first_sealed("salt", "m1", b"other")
    assert await replace("pepper", one, "m2", b"two")
    for earlier in (one, ("m1", b"two"), ("m2", b"one")):
        assert not await replace("pepper", earlier, "m3", b"three"), "somebody was faster"

    assert await store.deployment.sealed("pepper") == ("m2", b"two")
    assert await store.deployment.sealed("salt") == ("m1", b"other")


async def test_the_first_sealed_secret_counts(store: Store) -> None:
    keep = store.deployment.keep_first_sealed
    first, again = await keep("pepper", "m1", b"one"), await keep("pepper", "m2", b"two")

    assert first == again == ("m1", b"one")
    assert await store.deployment.sealed("pepper") == ("m1", b"one")
    assert await store.deployment.replace_sealed("pepper", first, "m2", b"two")
    assert await keep("pepper", "m3", b"three") == ("m2", b"two")
