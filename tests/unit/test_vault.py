# SPDX-License-Identifier: Apache-2.0
"""The vault: content seals, opens, expires and is erased; what was changed is never served."""

import asyncio
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from tests.support.clock import NOW
from tests.support.intercepted import Gate, Intercepted, SlowDisk
from tests.support.users import BOB
from tests.unit.small_deployment import (
    ALICE,
    CHAT,
    SmallDeployment,
    let_others_run,
    open_small_deployment,
    read,
    sealed_message,
    write,
)
from tidings.actions.content.vault import LINES_AT_ONCE, Vault
from tidings.actions.content.wrapping import Cursors
from tidings.assembly.system import SystemChance
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, user_key
from tidings.model.refusals import CursorInvalid, StoreUnavailable
from tidings.ports.secrets import WrappedKey


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        yield opened


# --- Sealing and opening


async def test_content_comes_back_also_after_a_restart(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        entry = await write(world.vault, "grüezi 👋")
        assert "grüezi".encode() not in (entry.box or b"")
        assert await read(world.vault, entry) == "grüezi 👋"
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, entry) == "grüezi 👋"
        assert world.vault.tampered == 0


async def test_sealing_needs_no_wait_once_the_key_is_at_hand(world: SmallDeployment) -> None:
    assert world.vault.seal_nowait(ALICE, CHAT, "m1", "x") is None
    await world.vault.seal(ALICE, CHAT, "m1", "x")
    sealed = world.vault.seal_nowait(ALICE, CHAT, "m2", "y")
    assert sealed is not None
    assert await read(world.vault, sealed_message(sealed, cmid="m2")) == "y"


async def test_the_same_content_never_looks_the_same(world: SmallDeployment) -> None:
    boxes = {(await world.vault.seal(ALICE, CHAT, "m1", "x")).box for _ in range(2_000)}
    assert len(boxes) == 2_000
    assert len({box[:12] for box in boxes}) == 2_000, "a nonce was used twice"


async def test_first_sends_at_once_end_with_one_key(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        # Two vaults on one store, as two processes would be: neither knows the other's key.
        other = Vault(
            world.store.data_keys,
            world.store.deployment,
            world.master,
            SystemChance(),
            world.clock,
        )
        await other.start()
        async with asyncio.TaskGroup() as tasks:
            sends = [
                tasks.create_task(vault.seal(ALICE, CHAT, "m1", "x"))
                for _ in range(20)
                for vault in (world.vault, other)
            ]
        boxes = [send.result() for send in sends]
        assert {sealed.box_key for sealed in boxes} == {1}
    async with open_small_deployment(tmp_path / "data") as world:
        assert {await read(world.vault, sealed_message(sealed)) for sealed in boxes} == {"x"}


@pytest.mark.attack("E15")
@pytest.mark.parametrize(
    "change",
    [
        lambda e: msgspec.structs.replace(e, box=bytes([e.box[0] ^ 1]) + e.box[1:]),
        lambda e: msgspec.structs.replace(e, box=e.box[:-1] + bytes([e.box[-1] ^ 1])),
        lambda e: msgspec.structs.replace(e, box=e.box[:20]),
        lambda e: msgspec.structs.replace(e, box=b""),
        lambda e: msgspec.structs.replace(e, client_message_id="m2"),
        lambda e: msgspec.structs.replace(e, chat_id=ChatId("01HZZZZZZZZZZZZZZZZZZZZZZA")),
    ],
    ids=["nonce", "tag", "cut", "empty", "another message's", "another chat's"],
)
async def test_what_was_changed_is_counted_and_never_served(
    world: SmallDeployment, caplog: pytest.LogCaptureFixture, change: Callable[[Entry], Entry]
) -> None:
    entry = await write(world.vault, "tampered-canary")
    changed = change(entry)
    good = await write(world.vault, "still here", cmid="m3")
    with caplog.at_level(logging.CRITICAL):
        await world.vault.open([changed, good], NOW)
    assert (changed.content, changed.gone) == (None, "erased")
    assert good.content == "still here", "one bad row must not take the page with it"
    assert world.vault.tampered == 1
    assert [record.action for record in caplog.records] == ["content_tampered"]  # type: ignore[attr-defined]
    assert "tampered-canary" not in str([record.__dict__ for record in caplog.records])


async def test_content_under_another_sender_does_not_open(world: SmallDeployment) -> None:
    entry = await write(world.vault, "mine")
    await world.vault.seal(BOB, CHAT, "m1", "so that bob has a key")
    assert await read(world.vault, msgspec.structs.replace(entry, sender=BOB)) == "<erased>"
    assert world.vault.tampered == 1


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"redacted": True, "box": None}, "<redacted>"),
        ({"redacted": True, "box": None, "expires_at": NOW}, "<redacted>"),
        ({"expires_at": NOW}, "<expired>"),
        ({"expires_at": NOW + 1, "box": None}, "<expired>"),
        ({"expires_at": NOW + 1}, "text"),
        ({"box": None}, "<erased>"),
    ],
)
async def test_why_content_is_gone(
    world: SmallDeployment, fields: dict[str, object], seen: str
) -> None:
    entry = await write(world.vault, "text")
    assert await read(world.vault, msgspec.structs.replace(entry, **fields)) == seen


async def test_expired_content_is_not_even_decrypted(world: SmallDeployment) -> None:
    entry = await write(world.vault, "text")
    broken = msgspec.structs.replace(entry, box=b"nonsense", expires_at=NOW)
    assert await read(world.vault, broken) == "<expired>"
    assert world.vault.tampered == 0


async def test_content_opened_before_it_expired_does_not_stay(world: SmallDeployment) -> None:
    entry = msgspec.structs.replace(await write(world.vault, "text"), expires_at=NOW + 1)
    seen = []
    for now in (NOW, NOW + 1):
        await world.vault.open([entry], now)
        seen.append((entry.content, entry.gone))
    assert seen == [("text", None), (None, "expired")]


async def test_an_edit_shows_its_target(world: SmallDeployment) -> None:
    target = await write(world.vault, "better")
    edited = Entry(chat_id=CHAT, kind="edited", sender=ALICE, target=1, shown=target)
    joined = Entry(chat_id=CHAT, kind="added", sender=ALICE)
    await world.vault.open([edited, joined], NOW)
    assert target.content == "better"
    assert (edited.content, edited.gone, joined.gone) == (None, None, None)


async def test_only_so_many_keys_stay_in_memory(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.vault._keys._cached, "_most", 2)
    users = [user_key("acme", f"u{n}") for n in range(3)]
    entries = [await write(world.vault, f"text {user}", user) for user in users]
    assert world.vault.seal_nowait(users[0], CHAT, "m2", "x") is None
    assert world.vault.seal_nowait(users[1], CHAT, "m2", "x") is not None, "used, so it stays"
    await world.vault.seal(users[0], CHAT, "m2", "x")
    assert world.vault.seal_nowait(users[2], CHAT, "m2", "x") is None, "the one used longest ago"
    for user, entry in zip(users, entries, strict=True):
        assert await read(world.vault, entry) == f"text {user}"


# --- Erasing


async def test_erasing_takes_the_content_of_one_author_only(world: SmallDeployment) -> None:
    mine, other = await write(world.vault, "mine"), await write(world.vault, "other", BOB)
    assert await world.vault.erase(ALICE) == 1
    assert await read(world.vault, mine) == "<erased>"
    assert await read(world.vault, other) == "other"
    assert await world.vault.erase(ALICE) == 0
    assert world.vault.tampered == 0


async def test_after_erasure_an_author_writes_under_a_new_key(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        before = await write(world.vault, "before")
        await world.vault.erase(ALICE)
        after = await write(world.vault, "after", cmid="m2")
        assert after.box_key > before.box_key
        for _ in range(2):
            assert await read(world.vault, before) == "<erased>"
            assert await read(world.vault, after) == "after"
        assert world.vault.tampered == 0, "erased is not tampered with"
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, before) == "<erased>"
        assert await read(world.vault, after) == "after"
        assert (await world.vault.seal(ALICE, CHAT, "m3", "x")).box_key == after.box_key


async def test_an_erasure_during_a_load_leaves_no_old_key_behind(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        before = await write(world.vault, "before")
    gate = Gate("current", after=True)
    async with open_small_deployment(
        tmp_path / "data", data_keys=lambda k: Intercepted(k, gate)
    ) as world:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(world.vault.seal(ALICE, CHAT, "m2", "during"))
            await gate.reached.wait()
            tasks.create_task(world.vault.erase(ALICE))
            await let_others_run(world)
            gate.opened.set()
        after = await write(world.vault, "after", cmid="m3")
        assert await read(world.vault, before) == "<erased>"
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, after) == "after"


async def test_a_cancelled_erasure_is_carried_through(tmp_path: Path) -> None:
    disk = SlowDisk("end")
    async with open_small_deployment(
        tmp_path / "data", data_keys=lambda k: Intercepted(k, disk)
    ) as world:
        before = await write(world.vault, "before")
        async with asyncio.TaskGroup() as tasks:
            erasure = tasks.create_task(world.vault.erase(ALICE))
            await disk.begun.wait()
            erasure.cancel()
        async with asyncio.TaskGroup() as tasks:
            during = tasks.create_task(write(world.vault, "during", cmid="m2"))
            await let_others_run(world)
            disk.may_end.set()
            await let_others_run(world)
        after = await write(world.vault, "after", cmid="m3")
        assert await read(world.vault, before) == "<erased>"
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, before) == "<erased>"
        assert await read(world.vault, during.result()) in ("during", "<erased>")
        assert await read(world.vault, after) == "after"


@pytest.mark.attack("E15")
async def test_a_data_key_that_was_changed_wedges_nothing(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        entry, other = await write(world.vault, "mine"), await write(world.vault, "other", BOB)
        key = await world.store.data_keys.current(ALICE)
        assert key is not None
        await world.store.data_keys.rewrap([msgspec.structs.replace(key, wrapped=b"x" * 60)])
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, entry) == "<erased>"
        assert await read(world.vault, other) == "other"
        with pytest.raises(StoreUnavailable):
            await world.vault.seal(ALICE, CHAT, "m2", "x")
        assert world.vault.tampered == 2


async def test_one_author_s_key_does_not_serve_as_another_s(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        entry = await write(world.vault, "mine")
        key = await world.store.data_keys.current(ALICE)
        assert key is not None
        await world.store.data_keys.add(
            WrappedKey(
                author=BOB, generation=0, wrapped=key.wrapped, master_key_id=key.master_key_id
            )
        )
    async with open_small_deployment(tmp_path / "data") as world:
        assert await read(world.vault, msgspec.structs.replace(entry, sender=BOB)) == "<erased>"
        assert world.vault.tampered == 1


# --- Digests and cursors


async def test_a_digest_is_keyed_stable_and_unambiguous(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "a") as world:
        first = world.vault.digest("ab", "c")
        assert len(first) == 16
        assert first == world.vault.digest("ab", "c")
        others = [("a", "bc"), ("abc",), ("ab", "c", ""), ("", "abc"), ("2:ab1:c",)]
        assert len({first, *(world.vault.digest(*parts) for parts in others)}) == 6
        for count in (1, LINES_AT_ONCE, 2 * LINES_AT_ONCE + 1):
            lines = [f"é{number}" for number in range(count)]
            whole = world.vault.digest("ab", "\n".join(lines))
            assert world.vault.digest_of_lines("ab", lines) == whole
    async with open_small_deployment(tmp_path / "a") as world:
        assert world.vault.digest("ab", "c") == first, "sends are recognised across a restart"
    async with open_small_deployment(tmp_path / "b") as world:
        assert world.vault.digest("ab", "c") != first, "another deployment, another key"


@pytest.mark.attack("D17")
async def test_a_cursor_is_for_one_purpose_and_one_user(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        cursor = world.vault.cursors.seal("chats", ALICE, b"payload")
    async with open_small_deployment(tmp_path / "data") as world:
        cursors = world.vault.cursors
        assert cursors.open("chats", ALICE, cursor) == b"payload"
        for purpose, user in [("members", ALICE), ("chats", BOB)]:
            with pytest.raises(CursorInvalid):
                cursors.open(purpose, user, cursor)


def _changed(cursor: str) -> str:
    box = bytearray(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    box[-1] ^= 1
    return urlsafe_b64encode(bytes(box)).decode().rstrip("=")


@pytest.mark.attack("D17")
@pytest.mark.parametrize(
    "spoil",
    [
        _changed,
        lambda c: c[:-4],
        lambda c: c[:4] + "****" + c[4:],
        lambda c: "",
        lambda c: "A",
        lambda c: "é" + c,
        lambda c: c * 100,
    ],
    ids=["changed", "cut", "alphabet", "empty", "short", "not ASCII", "long"],
)
def test_a_spoilt_cursor_is_refused(spoil: Callable[[str], str]) -> None:
    cursors = Cursors(b"k" * 32, SystemChance())
    with pytest.raises(CursorInvalid):
        cursors.open("chats", ALICE, spoil(cursors.seal("chats", ALICE, b"payload")))
