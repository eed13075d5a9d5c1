# SPDX-License-Identifier: Apache-2.0
"""Bans: kept with the user, read with credentials, and told in the revocation feed."""

from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB

LATER = NOW + 5


async def test_a_ban_is_kept_until_it_ends(engine: Engine) -> None:
    async with engine.open() as store:
        await store.users.put(ANN, display_name="Ann", phone_number=None, now=1)
        banned = await store.users.ban(ANN, LATER, NOW)
        assert banned is not None
        assert (banned.banned_until, banned.updated_at) == (LATER, NOW)
    async with engine.open() as store:
        assert await store.users.get(ANN) == banned
        assert (await store.sessions.stored_credentials(ANN, None)).banned_until == LATER
        ended = await store.users.ban(ANN, None, LATER)
        assert ended is not None
        assert (ended.banned_until, ended.display_name) == (None, "Ann")
        assert (await store.sessions.stored_credentials(ANN, None)).banned_until is None
        assert await store.users.ban(BOB, LATER, NOW) is None


async def test_every_process_is_told_until_when(store: Store) -> None:
    await store.users.put(ANN, display_name=None, phone_number=None, now=1)
    position = await store.revocations.head()
    await store.users.ban(ANN, LATER, NOW)
    await store.users.ban(ANN, None, NOW)

    told = await store.revocations.after(position)
    assert [(one.kind, one.subject, one.at) for one in told] == [
        ("ban", ANN, LATER), ("ban", ANN, 0),
    ]  # fmt: skip
