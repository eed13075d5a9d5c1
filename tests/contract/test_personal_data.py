# SPDX-License-Identifier: Apache-2.0
"""What the deletion of a user removes from the store, and the ledger that no restore rolls back."""

import os
import shutil
from pathlib import Path

import pytest

from tests.contract.engines import Engine, SqliteEngine, Store
from tests.contract.identity_builders import PHONE, a_code, a_session, make_user
from tests.contract.inbox_builders import a_broadcast
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.model.chats import Chat
from tidings.model.entries import Entry, Person
from tidings.model.ids import ChatId, UserKey, ulid
from tidings.model.limits import DAY_MS
from tidings.model.notification_states import StateChange
from tidings.model.notifications import Copy, ReadState
from tidings.model.refusals import StoreUnavailable, UserDeleted
from tidings.model.roles import Invite
from tidings.ports.chats import RequestKey
from tidings.ports.erasing import LedgerEntry
from tidings.ports.secrets import WrappedKey
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.identity.erasing import LEDGER, read_lines

LATER = NOW + 5
CHAT = ChatId(ulid(NOW, bytes(10)))


async def test_only_a_mark_is_left_of_a_deleted_user(engine: Engine) -> None:
    async with engine.open() as store:
        await store.users.put(ANN, display_name="Ann", phone_number=PHONE, now=NOW)
        await make_user(store, BOB)
        store.users.seen({ANN: NOW})
        mark = await store.personal_data.mark_deleted(ANN, LATER)
        assert (mark.created_at, mark.updated_at, mark.deleted_at) == (NOW, LATER, LATER)
        assert mark.deactivated_at == LATER and mark.revoked_at is not None
        assert (mark.display_name, mark.phone_number, mark.last_seen_at) == (None, None, None)
        assert await store.personal_data.mark_deleted(ANN, LATER + 9) == mark

    async with engine.open() as store:
        assert await store.users.get(ANN) == mark
        ended = Revocation(kind="user", subject=ANN, at=mark.revoked_at)
        assert await store.revocations.after(0) == [ended]
        assert dict(await store.users.by_phone("acme", [PHONE])) == {}
        assert (await store.sessions.stored_credentials(ANN, None)).deleted_at == LATER
        await until(lambda: store.users.about_how_many("acme"), equals=1)
        page = await store.users.by_id("acme", prefix="", after=None, limit=9)
        assert [user.user for user in page.rows] == [BOB]
        store.users.seen({ANN: LATER})
        await store.users.put(BOB, display_name="Bob", phone_number=PHONE, now=LATER)
        assert await store.users.get(ANN) == mark


async def test_nobody_gets_the_id_of_a_deleted_user(store: Store) -> None:
    await make_user(store, BOB)
    nobody = UserKey("acme:nobody")
    for user in (BOB, nobody):
        await store.personal_data.mark_deleted(user, LATER)
        for name, number in ((None, None), ("B", None), (None, PHONE)):
            with pytest.raises(UserDeleted):
                await store.users.put(user, display_name=name, phone_number=number, now=LATER)
        with pytest.raises(UserDeleted):
            await store.users.missing([ANN, user])
        after = await store.users.set_active(user, True, LATER)
        assert after is not None and after.deactivated_at == LATER
    assert await store.users.missing([ANN]) == [ANN]


async def test_sessions_and_codes_are_removed_also_those_that_have_ended(store: Store) -> None:
    opened, ended, other = a_session(), a_session(), a_session(BOB)
    for session in (opened, ended, other):
        await store.sessions.open(session)
    assert await store.sessions.revoke(ANN, ended.session_id, NOW)
    both = sorted([opened.session_id, ended.session_id])

    async def found() -> list[str]:
        return sorted(await store.personal_data.sessions(ANN, 9))

    await until(found, equals=both)
    assert len(await store.personal_data.sessions(ANN, 1)) == 1
    await store.personal_data.forget_sessions(both)
    await store.personal_data.forget_sessions(both)
    await until(found, equals=[])
    assert await store.sessions.get(ended.session_id) is None
    assert await store.sessions.get(other.session_id) == other

    await store.login_codes.put(a_code())
    await store.personal_data.forget_code("acme", PHONE)
    await store.personal_data.forget_code("acme", PHONE)
    assert await store.login_codes.find("acme", PHONE) is None


async def test_invitations_and_requests_are_removed(store: Store) -> None:
    chats = [ChatId(ulid(NOW + number, bytes(10))) for number in range(3)]
    for chat in chats:
        await store.invites.put(
            Invite(
                user_id=ANN, chat_id=chat, inviter=BOB, role="member", name="g", invited_at=NOW,
                expires_at=NOW + DAY_MS,
            ),
            NOW,
        )  # fmt: skip
    await store.invites.decline(ANN, chats[0], NOW)
    assert sorted(await store.personal_data.invites(ANN, 9)) == chats
    await store.personal_data.forget_invites(ANN, chats[:2])
    assert await store.personal_data.invites(ANN, 9) == chats[2:]
    assert await store.personal_data.invites(BOB, 9) == []

    made = Chat(chat_id=CHAT, tenant="acme", type="group", name="g", creator=ANN, created_at=NOW)
    entry = Entry(
        chat_id=CHAT, kind="created", sender=ANN, sequence=1, created_at=NOW, active_at=NOW,
        mark="m", people=(Person(ANN, "owner"),), name="g",
    )  # fmt: skip
    await store.chats.create(made, [entry], RequestKey(ANN, "k1", b"d", NOW + DAY_MS), NOW)
    assert await store.personal_data.requests(ANN, 9) == ["k1"]
    await store.personal_data.forget_requests(ANN, ["k1"])
    assert await store.personal_data.requests(ANN, 9) == []


async def test_notifications_and_read_marks_are_removed(store: Store) -> None:
    for number in range(3):
        copy = Copy(
            notification_id=f"n{number}", category=None, received_at=NOW, expires_at=NOW + DAY_MS
        )
        await store.copies.deliver([ANN, BOB], "news", copy)
    for user in (ANN, BOB):
        await store.copies.read_before(user, "news", NOW, 3)
        await store.copies.read_broadcasts(user, "news", [7], NOW)
        await store.inbox_states.mark_before(user, "news", "seen", NOW, 3)
        await store.inbox_states.change_broadcasts(
            user, "news", [a_broadcast(8)], StateChange(archived=True), ReadState(), NOW
        )
    await store.personal_data.forget_copies(ANN, "news", ["n0", "n1", "n9"])
    left = await store.copies.newest(ANN, "news", before=None, limit=9)
    assert [copy.notification_id for copy in left] == ["n2"]
    await store.personal_data.forget_marks(ANN, "news")
    assert await store.copies.read_state(ANN, "news") == ReadState()
    kept = await store.copies.read_state(BOB, "news")
    assert (kept.announced, kept.seen_announced, set(kept.broadcasts)) == (3, 3, {8})
    assert len(await store.copies.newest(BOB, "news", before=None, limit=9)) == 3


# The ledger.


async def erased(store: Store, erasure: LedgerEntry) -> None:
    """Record an erasure as if it was carried out."""
    await store.ledger.append(erasure)
    await store.ledger.finish(erasure)


async def test_what_the_store_knows_is_not_done_again(engine: Engine) -> None:
    async with engine.open() as store:
        assert await store.ledger.unknown() == []
        await erased(store, LedgerEntry("user", ANN, NOW))
        await erased(store, LedgerEntry("content", BOB, NOW))
        await erased(store, LedgerEntry("content", BOB, LATER))
        await store.ledger.note(LedgerEntry("content", BOB, NOW))  # by a slower process
    async with engine.open() as store:
        assert await store.ledger.unknown() == []


async def test_an_erasure_that_the_ledger_cannot_keep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    async with SqliteEngine(tmp_path / "data").open() as store:
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda descriptor, lines: write(descriptor, lines[:9]))
            with pytest.raises(StoreUnavailable):
                await store.ledger.append(LedgerEntry("user", ANN, NOW))
        assert await store.ledger.unknown() == []
        await erased(store, LedgerEntry("user", ANN, LATER))
        assert await store.ledger.unknown() == []
    assert read_lines(tmp_path / "data" / LEDGER) == [LedgerEntry("user", ANN, LATER)]


async def test_a_restored_store_lacks_what_the_ledger_has(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "data")
    async with engine.open() as store:
        await erased(store, LedgerEntry("content", BOB, NOW))
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    async with engine.open() as store:
        await erased(store, LedgerEntry("user", ANN, LATER + 1))
        await erased(store, LedgerEntry("content", BOB, LATER))
        await erased(store, LedgerEntry("chat", "c1", LATER + 2, by=ANN))
    for path in (tmp_path / "data").glob("tidings.db*"):
        path.unlink()
    for path in (tmp_path / "backup").glob("tidings.db*"):
        shutil.copy(path, tmp_path / "data")
    with (tmp_path / "data" / LEDGER).open("ab") as file:
        file.write(b'\n{"kind":"user","subj')  # a crash cut it off
    missing = [
        LedgerEntry("content", BOB, LATER),
        LedgerEntry("user", ANN, LATER + 1),
        LedgerEntry("chat", "c1", LATER + 2, by=ANN),
    ]
    async with engine.open() as store:
        assert await store.ledger.unknown() == missing
        await store.ledger.note(missing[0])
        assert await store.ledger.unknown() == missing[1:]
        await erased(store, LedgerEntry("user", BOB, LATER))
        assert await store.ledger.unknown() == missing[1:]


async def test_an_erasure_is_known_once_it_is_carried_out(tmp_path: Path) -> None:
    """A backup that is made between the record and the erasure must not undo the erasure."""
    engine, erasure = SqliteEngine(tmp_path / "data"), LedgerEntry("content", BOB, NOW)
    async with engine.open() as store:
        key = WrappedKey(author=BOB, generation=0, wrapped=b"wrapped", master_key_id="m")
        await store.data_keys.add(key)
        await store.ledger.append(erasure)
        assert await store.ledger.unknown() == [erasure]
        assert await store.data_keys.end(BOB, NOW) == 1
        assert await store.ledger.unknown() == [], "a replay would erase what he writes next"
        erasure = LedgerEntry("user", ANN, NOW)
        await store.ledger.append(erasure)
        assert await store.ledger.unknown() == [erasure]
        await store.ledger.finish(erasure)
        assert await store.ledger.unknown() == []
