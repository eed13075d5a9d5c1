# SPDX-License-Identifier: Apache-2.0
"""A history from another system is added to a tenant, on every engine, once and in its own time."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import TENANT, Json, Rest, open_rest
from tidings.actions.chat.retention import Retention
from tidings.actions.export import history as history_module
from tidings.actions.export.history import HistoryImport, chat_id_of
from tidings.actions.export.history_lines import BadLine
from tidings.cli import main
from tidings.model.ids import ChatId, UserKey, from_rfc3339
from tidings.model.refusals import LimitReached, StoreUnavailable
from tidings.ports.log import Failed, Run, SlotTaken

pytestmark = pytest.mark.asyncio(loop_scope="module")

START = {"kind": "tidings-history", "version": 1}


def at(second: int) -> str:
    return f"2021-03-01T10:00:{second:02}.000Z"


def user(name: str, **more: Any) -> Json:
    return {"kind": "user", "id": name, "created_at": at(0), **more}


def chat(name: str, *members: str, type_: str = "group") -> Json:
    title = {"name": f"Old {name}"} if type_ == "group" else {}
    found = {"kind": "chat", "id": name, "type": type_, "members": members, "created_at": at(1)}
    return {**found, **title}


def message(where: str, number: int, sender: str, content: str = "") -> Json:
    return {
        "kind": "message",
        "chat": where,
        "id": f"m{number}",
        "sender": sender,
        "created_at": at(number),
        "content": content or f"number {number}",
    }


def chat_id(name: str) -> str:
    return chat_id_of(TENANT, name, from_rfc3339(at(1)))


async def add(rest: Rest, *lines: Json, store: Any = None) -> int:
    """Import these lines; how many messages were new."""
    core = rest.core
    retention = Retention(core.store.inbox_settings, core.clock)
    history = HistoryImport(
        store or core.store, core.vault, retention, core.clock, core.chance, TENANT
    )
    numbers: list[int] = []
    try:
        await history.run([json.dumps(line).encode() for line in lines], numbers.append)
    finally:
        await retention.close()
    assert numbers == list(range(2, len(lines) + 1))
    return history.messages


async def contents(rest: Rest, reader: str, name: str) -> list[tuple[str, str, str]]:
    actor = await rest.user(reader)
    page = await actor.ok("GET", f"/v1/chats/{chat_id(name)}/messages?after=0")
    return [(one["sender_id"], one["content"], one["created_at"]) for one in page["data"]]


async def test_what_the_tenant_posted_elsewhere(rest: Rest) -> None:
    await rest.tenant()
    lines = [START, user("xia"), user("yan"), chat("posts", "xia", "yan")]
    lines.append(message("posts", 2, "~tenant") | {"posted_by": "tenant"})
    lines.append(message("posts", 3, "xia") | {"posted_by": "tenant"})
    assert await add(rest, *lines) == 2
    xia = await rest.user("xia")
    page = await xia.ok("GET", f"/v1/chats/{chat_id('posts')}/messages?after=0")
    shown = [(one["sender_id"], one["content"], one["posted_by"]) for one in page["data"]]
    assert shown == [("~tenant", "number 2", "tenant"), ("xia", "number 3", "tenant")]
    with pytest.raises(BadLine, match="line 7: a message of ~tenant must have posted_by tenant"):
        await add(rest, *lines, message("posts", 4, "~tenant"))


async def test_people_find_what_they_wrote_elsewhere(rest: Rest) -> None:
    await rest.tenant()
    history = [
        START,
        user("una", display_name="Una"),
        user("vic"),
        chat("plans", "una", "vic"),
        chat("pair", "vic", "una", type_="direct"),
        message("plans", 2, "una"),
        message("pair", 3, "vic", "hello"),
        message("plans", 4, "vic"),
    ]
    assert await add(rest, *history) == 3
    assert await contents(rest, "una", "plans") == [
        ("una", "number 2", at(2)),
        ("vic", "number 4", at(4)),
    ]
    assert await contents(rest, "vic", "pair") == [("vic", "hello", at(3))]
    una = await rest.user("una")
    listed = {one["chat_id"]: one for one in (await una.ok("GET", "/v1/chats"))["data"]}
    plans = listed[chat_id("plans")]
    assert (plans["name"], plans["unread"], plans["created_at"]) == ("Old plans", 0, at(1))
    assert plans["last_message"]["created_at"] == at(4)
    assert (await una.ok("GET", "/v1/me"))["display_name"] == "Una"

    assert await add(rest, *history) == 0, "a repeat adds nothing"
    assert await add(rest, *history[:-1]) == 0, "nor does a part of it"
    await una.send(chat_id("plans"), "new")
    assert len(await contents(rest, "vic", "plans")) == 3
    vic = await rest.user("vic")
    assert (await vic.ok("GET", f"/v1/chats/{chat_id('plans')}"))["unread"] == 1
    with pytest.raises(BadLine, match="line 9: somebody has written in plans since"):
        await add(rest, *history, message("plans", 5, "una"))


class FailingLog:
    """The log, whose first runs come to nothing: a slot is taken, then the store fails."""

    def __init__(self, store: Any) -> None:
        self._store, self._real = store, store.log
        self.log = self
        self.outcomes: list[Any] = [SlotTaken(), Failed()]
        self.run_entries_max = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real if hasattr(self._real, name) else self._store, name)

    def append(self, run: Run) -> None:
        assert run.may_write()
        if self.outcomes:
            run.settle(self.outcomes.pop(0))
        else:
            self._real.append(run)


async def test_an_import_that_broke_off_goes_on(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "BUFFERED_MAX", 3)
    await rest.tenant()
    start = [START, user("wim"), user("xia"), chat("long", "wim", "xia")]
    lines = [*start, *(message("long", number, "wim") for number in range(2, 9))]
    store = FailingLog(rest.core.store)
    with pytest.raises(StoreUnavailable):
        await add(rest, *lines, store=store)
    assert await add(rest, *lines[:7], store=store) == 3
    assert await add(rest, *lines, store=store) == 4
    assert [text for _, text, _ in await contents(rest, "xia", "long")] == [
        f"number {number}" for number in range(2, 9)
    ]


async def test_what_people_did_since_is_not_written_over(rest: Rest) -> None:
    await rest.tenant()
    lines = [START, *map(user, ("kim", "lea", "mia", "noa"))]
    for name in ("over", "left", "grew"):
        lines += [chat(name, "kim", "lea", "mia"), message(name, 2, "kim")]
    assert await add(rest, *lines) == 3
    kim, mia = await rest.user("kim"), await rest.user("mia")
    await kim.ok("DELETE", f"/v1/chats/{chat_id('over')}")
    await mia.ok("DELETE", f"/v1/chats/{chat_id('left')}/members/mia")
    await kim.ok("PUT", f"/v1/chats/{chat_id('grew')}/members/noa")
    for name, sender, reason in (
        ("over", "lea", "over was deleted"),
        ("left", "mia", "mia is no longer a member"),
        ("grew", "lea", "grew was changed"),
    ):
        before = await rest.core.store.log.state(ChatId(chat_id(name)))
        with pytest.raises(BadLine, match=f"line 12: {reason}"):
            await add(rest, *lines, message(name, 3, sender))
        after = await rest.core.store.log.state(ChatId(chat_id(name)))
        assert before is not None and after is not None and before.head == after.head


class FullStore:
    """The store, which has no room for another user."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.users = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, _user: UserKey) -> None:
        return None

    async def put(self, _user: UserKey, **_: Any) -> None:
        raise LimitReached("quota")


async def test_what_contradicts_the_tenant_is_refused(rest: Rest) -> None:
    await rest.tenant()
    yan, _ = await rest.users("yan", "zoe")
    await yan.direct("zoe")
    lines = [START, user("yan"), user("zoe"), chat("twice", "yan", "zoe", type_="direct")]
    with pytest.raises(BadLine, match="line 4: yan and zoe have a direct chat already"):
        await add(rest, *lines)
    with pytest.raises(BadLine, match="line 2: "):
        await add(rest, START, user("a b"))
    with pytest.raises(BadLine, match="line 2: quota"):
        await add(rest, START, user("new"), store=FullStore(rest.core.store))
    backend = await rest.tenant()
    await rest.user("gone")
    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/gone")
    with pytest.raises(BadLine, match="line 2: The user is deleted"):
        await add(rest, START, user("gone"))
    many = [f"u{number}" for number in range(40)]
    group = [START, *map(user, many), chat("many", *many)]
    assert await add(rest, *group, message("many", 2, "u39")) == 1
    assert len(await contents(rest, "u39", "many")) == 1


async def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "old.jsonl"
    lines = [START, user("ann"), user("bob"), chat("c", "ann", "bob"), message("c", 2, "ann")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with open_rest(tmp_path / "data") as rest:
        await rest.tenant()

    def typed(*words: str) -> tuple[int, str, str]:
        code = main(["import", *words, "--data", str(tmp_path / "data")])
        said = capsys.readouterr()
        return code, said.out, said.err

    from asyncio import to_thread

    counted = f"{file} has 2 users, 1 chats, 1 messages.\n"
    assert await to_thread(typed, str(file), "--history", TENANT, "--check") == (0, counted, "")
    code, out, _ = await to_thread(typed, str(file), "--history", TENANT)
    assert (code, out) == (0, f"{counted}Imported; 1 messages are new.\n")
    code, _, complaint = await to_thread(typed, str(file), "--history", "nobody")
    assert code == 2 and "there is no tenant nobody" in complaint
    async with open_rest(tmp_path / "data") as rest:
        await rest.tenant("over")
        await rest.root.ok("DELETE", "/v1/tenants/over")
    code, _, complaint = await to_thread(typed, str(file), "--history", "over")
    assert code == 2 and "the tenant over is deleted" in complaint
    code, _, complaint = await to_thread(typed, "-", "--history", TENANT)
    assert code == 2 and "cannot come from standard input" in complaint
    file.write_text(file.read_text() + "{}\n")
    code, _, complaint = await to_thread(typed, str(file), "--history", TENANT)
    assert code == 2 and "line 6: " in complaint
    async with open_rest(tmp_path / "data") as rest:
        assert len(await contents(rest, "bob", "c")) == 1
