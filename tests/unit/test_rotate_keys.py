# SPDX-License-Identifier: Apache-2.0
"""Rotating the master key: while sends go on, stopped at every step, and the old key afterwards."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.failpoints import Died
from tests.support.intercepted import Gate, Intercepted, SlowDisk
from tests.support.users import BOB
from tests.unit.small_deployment import (
    ALICE,
    CHAT,
    ROOT,
    SmallDeployment,
    let_others_run,
    open_small_deployment,
    read,
    sealed_message,
    write,
)
from tidings.actions.content import rotation
from tidings.actions.content.rotation import RotateKeys
from tidings.actions.content.vault import DEPLOYMENT_SECRETS
from tidings.actions.content.wrapping import CannotUnwrap, Wrapping, data_key_purpose
from tidings.actions.identity.caller import UserCaller
from tidings.assembly.system import SystemChance
from tidings.keyrings import EnvironmentKeyring, FileKeyring
from tidings.model.entries import Entry
from tidings.model.ids import user_key
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import MasterKey

AUTHORS = [user_key("acme", f"author{n}") for n in range(5)]


async def furnish(world: SmallDeployment) -> tuple[list[Entry], str, bytes]:
    """Something under every kind of secret: messages, a token, a digest."""
    for tenant in ("acme", "beta"):
        await world.put_tenant(ROOT, tenant, None)
    token = await world.make_token(ROOT, "acme", "alice")
    entries = [await write(world.vault, f"by {author}", author) for author in AUTHORS]
    return entries, token.token, world.vault.digest("x")


async def check_all_there(folder: Path, kept: tuple[list[Entry], str, bytes]) -> None:
    entries, token, digest = kept
    async with open_small_deployment(folder) as world:
        assert not world.vault.is_rotation_unfinished
        for author, entry in zip(AUTHORS, entries, strict=True):
            assert await read(world.vault, entry) == f"by {author}"
        assert isinstance(await world.authenticate(token), UserCaller)
        assert (await world.make_token(ROOT, "beta", "carol")).token
        assert world.vault.digest("x") == digest
        assert world.vault.tampered == 0


def key_in(folder: Path) -> MasterKey:
    current = FileKeyring(folder, SystemChance()).current
    assert current is not None
    return current


async def test_after_a_rotation_the_old_key_opens_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder) as world:
        kept = await furnish(world)
        old = key_in(folder)
        before = [await world.store.data_keys.current(author) for author in AUTHORS]
        rotated = await world.rotate()
        assert rotated.master_key_id == key_in(folder).key_id != old.key_id
        assert rotated.secrets == len(AUTHORS) + 2 + len(DEPLOYMENT_SECRETS), (
            "data keys, signing keys, secrets"
        )
        for author in AUTHORS:
            key = await world.store.data_keys.current(author)
            assert key is not None
            with pytest.raises(CannotUnwrap):
                Wrapping(EnvironmentKeyring(old.secret, None), SystemChance()).unwrap(
                    data_key_purpose(author), old.key_id, key.wrapped
                )
        everything = b"".join(path.read_bytes() for path in folder.iterdir())
        assert old.secret not in everything
        assert not [key for key in before if key and key.wrapped in everything], "left on disk"
    await check_all_there(folder, kept)
    with pytest.raises(SetupError, match="the master key does not open this store"):
        async with open_small_deployment(folder, master=EnvironmentKeyring(old.secret, None)):
            pass


async def test_a_thousand_sends_while_rotating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "BATCH_KEYS", 5)
    folder = tmp_path / "data"
    entries: list[Entry] = []
    async with open_small_deployment(folder) as world:
        kept = await furnish(world)
        old = key_in(folder)

        async def send(sender: int) -> None:
            for n in range(20):  # the first ten make a key each
                author = user_key("acme", f"sender{sender}-{n % 10}")
                sealed = await world.vault.seal(author, CHAT, f"m{n}", f"{sender} {n}")
                entries.append(sealed_message(sealed, author, f"m{n}"))

        async def rotate(times: int) -> None:
            for _ in range(times):
                await world.rotate()

        async with asyncio.TaskGroup() as tasks:
            for sender in range(50):
                tasks.create_task(send(sender))
            for times in (1, 2, 3):
                tasks.create_task(rotate(times))
        assert len(entries) == 1_000
        current = key_in(folder)
        assert not world.vault.is_rotation_unfinished
        assert current.key_id != old.key_id
        assert await world.store.data_keys.wrapped_by_others(current.key_id, 1) == []
    await check_all_there(folder, kept)
    async with open_small_deployment(folder) as world:
        await world.vault.open(entries, 0)
        assert not [entry for entry in entries if entry.gone], "a key was lost"


class StopsAt:
    """Dies at the n-th call to any port, just before it or just after."""

    def __init__(self, n: int, *, after: bool) -> None:
        self.left = n
        self.after = after
        self.has_died = False

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self.left -= 1
        if self.left == 0:
            if self.after:
                await call()
            self.has_died = True
            raise Died(name)
        return await call()


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_stopped_at_every_step_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(rotation, "BATCH_KEYS", 2)
    async with open_small_deployment(tmp_path / "furnished") as world:
        kept = await furnish(world)
    step = 0
    while True:
        step += 1
        folder = shutil.copytree(tmp_path / "furnished", tmp_path / f"step{step}")
        stops = StopsAt(step, after=after)
        async with open_small_deployment(folder) as world:
            old = key_in(folder)
            doomed: Any = [
                Intercepted(port, stops)
                for port in (
                    world.master, world.store.data_keys, world.store.tenants, world.store.deployment
                )
            ]  # fmt: skip
            master, data_keys, tenants, deployment = doomed
            rotate = RotateKeys(master, world.vault.wrapping, data_keys, tenants, deployment)
            try:
                await rotate()
            except Died:
                pass
            await write(world.vault, "written before the process was gone", BOB)
        async with open_small_deployment(folder) as world:
            if world.vault.is_rotation_unfinished:
                entry = await write(world.vault, "written meanwhile", user_key("acme", "new"))
                assert await world.rotate.resume() is not None
                assert await read(world.vault, entry) == "written meanwhile"
            assert await world.rotate.resume() is None
            current = key_in(folder)
            assert await world.store.data_keys.wrapped_by_others(current.key_id, 1) == []
        await check_all_there(folder, kept)
        began = current.key_id != old.key_id
        assert began == (step > 1 or after), "nothing but the first step may go without a trace"
        if not stops.has_died:
            break
    assert step > 12, "every kind of step was stopped at"


async def test_a_rotation_waits_for_keys_on_their_way_to_the_store(tmp_path: Path) -> None:
    gate = Gate("add")
    folder = tmp_path / "data"
    async with open_small_deployment(
        folder, data_keys=lambda keys: Intercepted(keys, gate)
    ) as world:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(write(world.vault, "sent before", ALICE))
            await gate.reached.wait()
            rotation = tasks.create_task(world.rotate())
            while not world.vault.is_rotation_unfinished:
                await asyncio.sleep(0)
            await write(world.vault, "sent meanwhile", BOB)
            await let_others_run(world)
            assert not rotation.done()
            gate.opened.set()
        entry = sending.result()
    async with open_small_deployment(folder) as world:
        assert await read(world.vault, entry) == "sent before"


async def test_a_key_whose_sender_gave_up_is_not_left_behind(tmp_path: Path) -> None:
    disk = SlowDisk("add")
    folder = tmp_path / "data"
    async with open_small_deployment(
        folder, data_keys=lambda keys: Intercepted(keys, disk)
    ) as world:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(write(world.vault, "given up", ALICE))
            await disk.begun.wait()
            sending.cancel()

        async def in_order(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
            if name == "replace_sealed":  # one disk: the earlier write is done before this one
                disk.may_end.set()
                await asyncio.wait(disk.writes)
            return await call()

        deployment: Any = Intercepted(world.store.deployment, in_order)
        await msgspec.structs.replace(world.rotate, deployment=deployment)()
    async with open_small_deployment(folder) as world:
        key = await world.store.data_keys.current(ALICE)
        assert key is not None
        assert key.master_key_id == key_in(folder).key_id


async def test_one_rotation_at_a_time(tmp_path: Path) -> None:
    gate = Gate("finish_rotation")
    folder = tmp_path / "data"
    async with open_small_deployment(folder) as world:
        kept = await furnish(world)
        master: Any = Intercepted(world.master, gate)
        rotate = msgspec.structs.replace(world.rotate, master=master)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(rotate())
            await gate.reached.wait()
            second = tasks.create_task(rotate())
            await let_others_run(world)
            assert not second.done(), "it would forget a key that the first one still needs"
            gate.opened.set()
        assert first.result().master_key_id != second.result().master_key_id
    await check_all_there(folder, kept)


async def test_a_key_read_just_before_the_end_of_a_rotation_still_opens(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder) as world:
        entry = await write(world.vault, "text")
    gate = Gate("get", after=True)
    async with open_small_deployment(
        folder, data_keys=lambda keys: Intercepted(keys, gate)
    ) as world:
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read(world.vault, entry))
            await gate.reached.wait()
            await world.rotate()
            gate.opened.set()
        assert reading.result() == "text"
        assert world.vault.tampered == 0


async def test_a_signing_key_at_hand_survives_two_rotations(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        await world.put_tenant(ROOT, "acme", None)
        assert await world.signing.public("acme.0123456789abcdef") is None  # loads, wrapped
        await world.rotate()
        await world.rotate()
        token = await world.make_token(ROOT, "acme", "alice")
        assert isinstance(await world.authenticate(token.token), UserCaller)


async def test_what_does_not_open_stops_the_rotation_and_nothing_is_forgotten(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder) as world:
        kept = await furnish(world)
        key = await world.store.data_keys.current(AUTHORS[0])
        assert key is not None
        bad = type(key)(
            author=key.author, generation=1, wrapped=b"x" * 60, master_key_id=key.master_key_id
        )
        await world.store.data_keys.rewrap([bad])
        with pytest.raises(SetupError, match="data key acme:author0 cannot be rewrapped"):
            await world.rotate()
        assert world.vault.is_rotation_unfinished
        await world.store.data_keys.rewrap([key])
        await world.rotate()
    await check_all_there(folder, kept)


# --- Keys from the environment


async def test_a_rotation_by_the_environment(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    old, new = b"o" * 32, b"n" * 32
    async with open_small_deployment(folder, master=EnvironmentKeyring(old, None)) as world:
        entry = await write(world.vault, "text")
        with pytest.raises(SetupError, match="TIDINGS_MASTER_KEY_PREVIOUS"):
            await world.rotate()
    async with open_small_deployment(folder, master=EnvironmentKeyring(new, old)) as world:
        unfinished = [world.vault.is_rotation_unfinished]
        await world.rotate()
        unfinished.append(world.vault.is_rotation_unfinished)
        assert unfinished == [True, False]
        assert (await world.rotate()).secrets == 0, "asked again, there is nothing left to do"
    async with open_small_deployment(folder, master=EnvironmentKeyring(new, None)) as world:
        assert await read(world.vault, entry) == "text"
    with pytest.raises(SetupError, match="does not open"):
        async with open_small_deployment(folder, master=EnvironmentKeyring(old, None)):
            pass


async def test_a_key_taken_back_too_early_is_noticed_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    old, new = b"o" * 32, b"n" * 32
    async with open_small_deployment(folder, master=EnvironmentKeyring(old, None)) as world:
        await write(world.vault, "text")
    async with open_small_deployment(folder, master=EnvironmentKeyring(new, old)) as world:
        await write(world.vault, "under the new key", BOB)
    with pytest.raises(SetupError, match="a data key is wrapped by"):
        async with open_small_deployment(folder, master=EnvironmentKeyring(old, None)):
            pass
    with pytest.raises(SetupError, match="does not open"):
        async with open_small_deployment(folder, master=EnvironmentKeyring(new, None)):
            pass


async def test_a_lost_key_file_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder):
        pass
    (folder / "master.key").rename(tmp_path / "mislaid")
    with pytest.raises(SetupError, match="is missing"):
        async with open_small_deployment(folder):
            pass
    assert not (folder / "master.key").exists()
    (tmp_path / "mislaid").rename(folder / "master.key")
    async with open_small_deployment(folder):
        pass
