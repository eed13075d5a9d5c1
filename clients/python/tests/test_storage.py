# SPDX-License-Identifier: Apache-2.0
"""One contract for both storages, and what only a file has to keep."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tidings_client.errors import StorageBusy, StorageTrouble
from tidings_client.saved import Changes, Held, Outgoing, Saved
from tidings_client.storage import FileStorage, MemoryStorage, Storage


@pytest.fixture(params=["memory", "file"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "client.db")


def saved_by(storage: Storage, *steps: Changes) -> Saved:
    """What another run finds after these changes."""
    storage.load()
    for changes in steps:
        storage.save(changes)
    storage.close()
    found = storage.load()
    storage.close()
    return found


def a_message(name: str) -> Outgoing:
    return Outgoing("c", name, "content", 5, "text/plain", 60, 7, "e")


def posted(*names: str) -> Changes:
    return Changes(posted={a_message(name).key: a_message(name) for name in names})


def test_a_new_one_holds_nothing(storage: Storage) -> None:
    assert saved_by(storage) == Saved()


def test_everything_comes_back(storage: Storage) -> None:
    changes = Changes(
        user="alice",
        epoch="e",
        held={"c": Held("e", 4), "d": Held("old", 2)},
        reads={"c": 3},
        posted=posted("a", "b").posted,
        erasures=7,
    )
    assert saved_by(storage, changes) == Saved(
        "alice",
        "e",
        {"c": Held("e", 4), "d": Held("old", 2)},
        {"c": 3},
        [a_message("a"), a_message("b")],
        7,
    )


def test_a_file_of_the_first_version_is_used_on(tmp_path: Path) -> None:
    file = tmp_path / "client.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(
            "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
            "CREATE TABLE held (chat TEXT PRIMARY KEY, epoch TEXT NOT NULL, have INTEGER NOT NULL)"
            " WITHOUT ROWID;"
            "CREATE TABLE reads (place INTEGER PRIMARY KEY AUTOINCREMENT,"
            " chat TEXT NOT NULL UNIQUE, sequence INTEGER NOT NULL);"
            "CREATE TABLE outbox (place INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL,"
            " client_message_id TEXT NOT NULL, content TEXT NOT NULL,"
            " created_at_ms INTEGER NOT NULL, content_type TEXT, ttl_seconds INTEGER,"
            " UNIQUE (chat, client_message_id));"
            "INSERT INTO outbox VALUES (1, 'c', 'old', 'hi', 5, NULL, NULL);"
            "PRAGMA user_version = 1;"
        )
    found = saved_by(FileStorage(file), posted("new"))
    assert found.outbox == [Outgoing("c", "old", "hi", 5), a_message("new")]


def test_the_options_of_a_message_are_kept(storage: Storage) -> None:
    message = Outgoing("c", "m", "hi", 5, reply_to=7, mentions=("bob", "carol"), silent=True)
    assert saved_by(storage, Changes(posted={message.key: message})).outbox == [message]


def test_later_changes_replace_earlier_ones(storage: Storage) -> None:
    found = saved_by(
        storage,
        Changes(held={"c": Held("e", 4), "d": Held("e", 1)}, reads={"c": 3, "d": 1}),
        Changes(held={"c": Held("e", 5), "d": None}, reads={"c": 4}),
        Changes(reads={"d": None}),
    )
    assert found.held == {"c": Held("e", 5)}
    assert found.reads == {"c": 4}


def test_a_new_epoch_drops_the_read_marks_before_it(storage: Storage) -> None:
    found = saved_by(
        storage, Changes(epoch="e", reads={"c": 3}), Changes(epoch="f", reads={"d": 1})
    )
    assert (found.epoch, found.reads) == ("f", {"d": 1})


def test_read_marks_come_back_the_most_recent_one_last(storage: Storage) -> None:
    found = saved_by(storage, Changes(reads={"c": 1, "d": 1}), Changes(reads={"c": 2}))
    assert list(found.reads) == ["d", "c"]


def test_the_outbox_keeps_its_order_and_loses_what_is_settled(storage: Storage) -> None:
    found = saved_by(
        storage, posted("a", "b", "c"), Changes(settled={("c", "b")}), posted("d"), posted("b")
    )
    assert [message.client_message_id for message in found.outbox] == ["a", "c", "d", "b"]


def test_what_is_settled_before_it_was_written_is_never_written() -> None:
    changes = posted("a")
    changes.settle(("c", "a"))
    changes.settle(("c", "b"))
    assert (changes.posted, changes.settled) == ({}, {("c", "b")})
    assert not Changes()


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    saved_by(FileStorage(tmp_path / "client.db"), posted("a"))
    assert stat.S_IMODE((tmp_path / "client.db").stat().st_mode) == 0o600


def test_one_client_at_a_time(tmp_path: Path) -> None:
    first, second = FileStorage(tmp_path / "client.db"), FileStorage(tmp_path / "client.db")
    first.load()
    with pytest.raises(StorageBusy):
        second.load()
    first.close()
    assert second.load() == Saved()
    second.close()


def test_a_failed_save_keeps_nothing_of_it(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "client.db")
    storage.load()
    storage.save(posted("a"))
    with pytest.raises(StorageTrouble):
        storage.save(Changes(user="alice", posted=posted("b", "a").posted))
    storage.close()
    found = storage.load()
    storage.close()
    assert (found.user, found.outbox) == (None, [a_message("a")])


def test_trouble_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageTrouble, match="not open"):
        FileStorage(tmp_path / "client.db").save(Changes())
    with pytest.raises(StorageTrouble):
        FileStorage(tmp_path / "no folder" / "client.db").load()
    (tmp_path / "other").write_bytes(b"certainly not a database, and long enough to tell" * 50)
    with pytest.raises(StorageTrouble):
        FileStorage(tmp_path / "other").load()
