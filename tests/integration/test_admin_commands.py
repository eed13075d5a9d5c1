# SPDX-License-Identifier: Apache-2.0
"""The commands for the first steps, on a running server: tenants, keys, tokens, lists, exports."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until
from tidings.assembly.system import SystemClock
from tidings.cli import main
from tidings.model.ids import rfc3339
from tidings.model.limits import DAY_MS

Say = Callable[..., Awaitable[tuple[int, list[str], str]]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    async with ServerProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Type a command; its exit code, its lines, and what it complains about."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    async def typed(*words: str) -> tuple[int, list[str], str]:
        code = await asyncio.to_thread(main, [*words, "--data", str(tmp_path / "data")])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return typed


async def printed(say: Say, *words: str) -> list[str]:
    code, lines, complaint = await say(*words)
    assert (code, complaint) == (0, "")
    return lines


async def test_the_first_steps_need_no_other_program(server: ServerProcess, say: Say) -> None:
    assert await printed(say, "tenants", "list") == []
    [line] = await printed(say, "tenant", "create", "acme", "--title", "Acme Inc.")
    assert line.startswith("The tenant acme exists since 20")
    assert await printed(say, "tenant", "create", "acme") == [line]
    [key] = await printed(say, "tenant", "key", "acme")
    [alice] = await printed(say, "token", "acme", "alice", "--device", "laptop")
    await printed(say, "token", "acme", "bob", "--expires-in", "60")

    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
    ) as http:

        async def ask(method: str, path: str, credential: str, body: object) -> httpx.Response:
            headers = {"Authorization": f"Bearer {credential}"}
            answer = await http.request(method, path, json=body, headers=headers)
            assert answer.is_success, answer.text
            return answer

        group = {"type": "group", "name": "Team", "members": ["bob"]}
        chat = (await ask("POST", "/v1/chats", alice, group)).json()["chat_id"]
        at = rfc3339(SystemClock().now() + DAY_MS)
        later = {"client_message_id": "s1", "content": "later", "send_at": at}
        made = await ask("POST", f"/v1/chats/{chat}/messages", alice, later)
        await ask("PUT", "/v1/tenants/acme/inboxes/news", key, {"title": "News"})
        profile = {"deactivated": True, "display_name": "Bob", "email": "bob@example.org"}
        bobs = profile | {"phone_number": "+4915112345678"}
        await ask("PUT", "/v1/tenants/acme/users/bob", key, bobs)

    [tenant] = await printed(say, "tenants", "list")
    assert tenant.split("  ")[::2] == ["acme", "active"]
    assert tenant.endswith("  Acme Inc.")
    alice_line, bob_line = await printed(say, "users", "list", "acme")
    user, _, *rest = alice_line.split("  ")
    assert (user, rest) == ("alice", ["active", "never seen"])
    user, _, *rest = bob_line.split("  ")
    phone = "+4915112345678 (not verified)"
    assert (user, rest) == ("bob", ["deactivated", "never seen", "bob@example.org", phone, "Bob"])
    assert await printed(say, "users", "list", "acme", "--prefix", "b") == [bob_line]
    [listed] = await printed(say, "chats", "list", "acme")
    assert listed.split("  ")[0] == chat
    assert listed.endswith("  group  2 members  Team")
    assert await printed(say, "chats", "list", "acme", "--user", "bob") == [listed]
    assert await printed(say, "inboxes", "list", "acme") == ["news  News"]
    [waiting] = await printed(say, "scheduled", "list", "acme", "alice")
    assert waiting.split("  ") == [made.json()["scheduled_id"], at, "pending", chat]
    [waiting] = await printed(say, "scheduled", "list", "acme", "alice", "--json")
    assert {"content", "attachments"}.isdisjoint(json.loads(waiting))
    assert (await printed(say, "connections", "acme", "alice")) == ["alice is not connected."]
    assert await printed(say, "reports", "acme", "--state", "open", "--sealed") == []
    newest, *_ = await printed(say, "audit", "acme", "--limit", "2")
    assert newest.split("  ")[2:4] == ["list_reports", "acme"]
    _, newest, *_ = await printed(say, "audit", "acme", "--limit", "2")
    assert newest.split("  ")[2:4] == ["make_token", "acme"]
    assert "sqlite" in "\n".join(await printed(say, "state"))
    records = [json.loads(line) for line in await printed(say, "user", "export", "acme", "alice")]
    assert (records[0]["kind"], records[0]["user_id"]) == ("profile", "alice")
    assert [one["chat"] for one in records if one["kind"] == "membership"] == [chat]


async def test_a_list_is_printed_to_its_end(server: ServerProcess, say: Say) -> None:
    await printed(say, "tenant", "create", "many")
    [key] = await printed(say, "tenant", "key", "many")
    names = [f"u{number:03}" for number in range(101)]
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
    ) as http:
        for name in names:
            headers = {"Authorization": f"Bearer {key}"}
            answer = await http.put(f"/v1/tenants/many/users/{name}", headers=headers)
            assert answer.status_code == 201
    lines = await printed(say, "users", "list", "many")
    assert [line.split()[0] for line in lines] == names
    lines = await printed(say, "users", "list", "many", "--prefix", "u00", "--json")
    assert [json.loads(line)["user_id"] for line in lines] == names[:10]


async def test_users_and_tenants_are_deleted_by_a_word(server: ServerProcess, say: Say) -> None:
    await printed(say, "tenant", "create", "old")
    await printed(say, "token", "old", "ann")
    for words in (("user", "delete", "old", "ann"), ("tenant", "delete", "old")):
        code, lines, complaint = await say(*words)
        assert (code, lines) == (2, []) and "add --yes" in complaint
    [line] = await printed(say, "user", "delete", "old", "ann", "--yes")
    assert line.split("  ")[:2] == ["delete-user-ann", "running"]
    job = ("job", "old", "delete-user-ann")
    code, lines, complaint = await say(*job, "--receipt")
    assert lines or "no receipt yet" in complaint

    async def state() -> str:
        [line] = await printed(say, *job)
        return line.split("  ")[1]

    await until(state, equals="done", seconds=60)
    [receipt] = await printed(say, *job, "--receipt")
    assert receipt.count(".") == 2
    [line] = await printed(say, "tenant", "delete", "old", "--yes")
    assert line.startswith("delete-tenant-old  running  ")


async def test_what_the_server_declines_is_said(server: ServerProcess, say: Say) -> None:
    for words in (
        ("users", "list", "nowhere"),
        ("tenant", "key", "nowhere"),
        ("token", "nowhere", "alice"),
        ("tenant", "create", "Not a name"),
    ):
        code, lines, complaint = await say(*words)
        assert (code, lines) == (2, [])
        assert complaint.startswith("tidings: the server declined: ")


async def test_without_a_server_the_command_says_so(say: Say) -> None:
    code, lines, complaint = await say("tenants", "list")
    assert (code, lines) == (2, [])
    assert "no server has" in complaint


async def test_any_request_and_the_log_of_a_chat(server: ServerProcess, say: Say) -> None:
    await printed(say, "api", "PUT", "/v1/tenants/acme", '{"name": "Acme"}')
    [alice] = await printed(say, "token", "acme", "alice")
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=WAIT_SECONDS
    ) as http:
        http.headers["Authorization"] = f"Bearer {alice}"
        made = await http.post("/v1/chats", json={"type": "group", "name": "Boats", "members": []})
        chat = made.json()["chat_id"]
        path = f"/v1/chats/{chat}/messages"
        for number in (1, 2):
            message = {"client_message_id": f"m{number}", "content": f"secret {number}"}
            await http.post(path, json=message)
        await http.delete(f"{path}/3")

    sealed = await printed(say, "chats", "log", "acme", chat)
    assert [line.split("  ")[2:] for line in sealed] == [
        ["created", "alice", "alice", "Boats"],
        ["message", "alice"],
        ["message", "alice", "redacted"],
        ["redacted", "alice", "of 3"],
    ]
    read = ("chats", "log", "acme", chat, "--after", "1", "--limit", "1", "--reason", "a test")
    [line] = await printed(say, *read)
    assert line.endswith("message  alice  secret 1")
    post = ("chats", "post", "acme", chat, "hello", "--id", "m3")
    assert await printed(say, *post) == await printed(say, *post) == [f"{chat}.5"]
    assert await printed(say, *post[:5], "--sender", "alice") == [f"{chat}.6"]
    posts = [line.split("  ")[3] for line in await printed(say, "chats", "log", "acme", chat)]
    assert posts[-2:] == ["~tenant", "alice"]
    shown = "\n".join(await printed(say, "api", "GET", "/v1/audit?limit=4"))
    assert json.loads(shown)["data"][3]["fields"] == ["reason=a test", "after=1", "limit=1"]
    assert await printed(say, "api", "DELETE", "/v1/tenants/acme/users/alice/sessions") == []
    for words, complaint in (
        (("v1/tenants",), "the path must begin with a slash"),
        (("/v1/tenants", "{"), "the body is not JSON"),
        (("/v1/nothing",), "the server declined"),
    ):
        code, _, said = await say("api", "GET", *words)
        assert code != 0 and complaint in said
