# SPDX-License-Identifier: Apache-2.0
"""Verification: nothing is wrong with a sound store, and each kind of damage is found."""

import shutil
from pathlib import Path
from typing import Final

import apsw
import pytest

from tests.contract.inbox_builders import a_scheduled
from tests.contract.moving_ground import LATER, FolderPlace, Place, TablesPlace, fill
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.actions.export.verifying import Verified, verify_all
from tidings.model.ids import ChatId
from tidings.model.setup_error import SetupError
from tidings.ports.due import due_of
from tidings.ports.export_engines import Inspection
from tidings.stores.dynamodb.chat.heads import EPOCH_CHARS
from tidings.stores.dynamodb.chat.items import receipt_key
from tidings.stores.dynamodb.export import inspecting as tables
from tidings.stores.dynamodb.listings import chat_listing
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.engine.schema import VERSION
from tidings.stores.sqlite.export.inspecting import open_inspection


async def found_in(store: Inspection, after: ChatId | None = None) -> list[str]:
    """Every violation as a line."""
    verified = Verified(after=after)
    every = verify_all(store, LATER, None, lambda _: None, verified)
    found = [f"{violation.where}: {violation.what}" async for violation in every]
    assert len(found) == verified.violations
    return found


async def verify(place: Place, after: ChatId | None = None) -> list[str]:
    if isinstance(place, FolderPlace):
        async with open_inspection(place.folder) as store:
            return await found_in(store, after)
    assert isinstance(place, TablesPlace)
    async with place.client() as dynamo:
        return await found_in(await tables.open_inspection(dynamo), after)


async def test_a_sound_store_has_no_violations_while_it_is_open(place: Place) -> None:
    async with place.open() as store:
        await fill(store)
        await store.tenant_data.mark_deleted("gone", NOW)
        await store.tenant_data.forget("gone")
        assert await verify(place) == []


# The group is the first chat that `fill` makes.
_GROUP: Final = "(SELECT min(chat_id) FROM chats WHERE name LIKE 'Garden%')"
DAMAGES: Final = {
    f"DELETE FROM messages WHERE chat_id = {_GROUP} AND sequence = 5": "entry 6 follows 4",
    f"UPDATE messages SET number = 99 WHERE chat_id = {_GROUP} AND sequence = 5": "entry 5 counts",
    f"UPDATE messages SET target = 99 WHERE chat_id = {_GROUP} AND kind = 'edited'": "changes 99",
    f"UPDATE messages SET box_key = 7 WHERE chat_id = {_GROUP} AND sequence = 5": "generation 7",
    f"UPDATE chat_memberships SET role = 'owner' WHERE user_id = '{BOB}'": f"member {BOB}: the log",
    f"DELETE FROM chat_memberships WHERE user_id = '{CAT}'": "a receipt without a member",
    f"DELETE FROM delivery_state WHERE user_id = '{CAT}'": "a member without a receipt",
    f"UPDATE delivery_state SET read = 999 WHERE user_id = '{BOB}'": f"read of {BOB} is beyond",
    "UPDATE delivery_state SET read_number = 1 WHERE unread_from": f"read of {BOB} claims 1",
    "UPDATE delivery_state SET unread_number = 3 WHERE unread_from": f"unread_from of {BOB} claims",
    "UPDATE chats SET member_count = 9": "the member count differs",
    "UPDATE user_counts SET users = 99": "the count of users differs",
    f"UPDATE chat_counts SET chats = 9 WHERE user_id = '{ANN}'": "the count of chats differs",
    "DELETE FROM reactions WHERE emoji = '👍'": "miscounts its reactions",
    "UPDATE reactions SET sequence = 999": "a reaction to no message",
    f"DELETE FROM chats WHERE chat_id = {_GROUP}": "a log without a chat",
    "DELETE FROM chats WHERE type = 'direct'": "a pair without a chat",
    f"DELETE FROM messages WHERE chat_id = {_GROUP}": "the log is empty",
}


async def test_each_damage_of_a_file_is_found(tmp_path: Path) -> None:
    sound = FolderPlace(tmp_path / "sound")
    async with sound.open() as store:
        await fill(store)

    for number, (damage, expected) in enumerate(DAMAGES.items()):
        place = FolderPlace(tmp_path / str(number))
        shutil.copytree(sound.folder, place.folder)
        db = apsw.Connection(str(place.folder / DATABASE))
        db.execute(damage)
        db.close()
        found = await verify(place)
        assert any(expected in line for line in found), (damage, found)


async def test_a_changed_page_is_found(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "data")
    async with place.open() as store:
        await fill(store)
    db = apsw.Connection(str(place.folder / DATABASE))
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'chats_by_tenant'").get
    db.close()
    with (place.folder / DATABASE).open("r+b") as file:
        file.seek(root * 4_096 - 1)
        file.write(b"\xff")

    assert any(line.startswith(DATABASE) for line in await verify(place))


async def test_a_verification_continues_after_the_last_chat(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "data")
    async with place.open() as store:
        chats = sorted(await fill(store))
    db = apsw.Connection(str(place.folder / DATABASE))
    for chat in (chats[0], chats[-1]):
        db.execute("DELETE FROM messages WHERE chat_id = ? AND sequence = 1", (chat,))
    db.close()

    whole, rest = await verify(place), await verify(place, after=chats[0])

    assert {line.partition(":")[0] for line in whole} == {chats[0], chats[-1]}
    assert {line.partition(":")[0] for line in rest} == {chats[-1]}


async def test_only_a_store_of_this_version_is_verified(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "data")
    with pytest.raises(SetupError, match="there is no store"):
        await verify(place)
    async with place.open():
        pass
    db = apsw.Connection(str(place.folder / DATABASE))
    db.pragma("user_version", VERSION - 1)
    db.close()
    with pytest.raises(SetupError, match=f"schema {VERSION - 1}"):
        await verify(place)


@pytest.mark.usefixtures("dynamodb_endpoint")
@pytest.mark.parametrize("place", ["dynamodb"], indirect=True)
async def test_each_damage_of_the_tables_is_found(place: Place) -> None:
    assert isinstance(place, TablesPlace)
    async with place.open() as store:
        group, direct, *_ = await fill(store)
        epoch = store.deployment.epoch[:EPOCH_CHARS]
    async with place.client() as dynamo:
        for table, key in (
            ("listings", chat_listing("acme", direct)),
            ("delivery_state", receipt_key(CAT, group)),
            ("messages", {"chat_id": group, "sequence": 5}),
        ):
            await dynamo.delete(Pattern("damage", "DeleteItem", (table,), "to damage"), key)
        await dynamo.update(
            Pattern("damage", "UpdateItem", ("chats",), "to damage"),
            {"chat_id": group},
            "SET #epoch = :epoch, #sequence = :far, #member_count = :far",
            values={":epoch": epoch, ":far": 999},
        )

    found = "\n".join(await verify(place))

    for expected in (
        f"{direct} is not listed",
        f"{group} {CAT}: a member without a receipt",
        f"{group}: entry 6 follows 4",
        f"{group}: a head copy says 999",
        f"{group}: the member count differs",
    ):
        assert expected in found


async def test_a_message_that_would_never_be_sent_is_found(place: Place) -> None:
    message = a_scheduled(1, box_key=0)
    async with place.open() as store:
        await fill(store)
        before = await verify(place)
        await store.scheduled.add(message)
        [found] = set(await verify(place)) - set(before)
        assert "never due" in found
        assert message.scheduled_id in found
        await store.due.put(due_of(message), NOW)
        assert await verify(place) == before
        await store.scheduled.add(a_scheduled(2, box_key=9))
        assert any("generation 9, is missing" in line for line in await verify(place))
