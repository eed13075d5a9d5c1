# SPDX-License-Identifier: Apache-2.0
"""What operators rely on: logs that cannot be forged, no pages for debugging, records of who said
what, and an order that no clock can change."""

import json
import logging
from typing import Any

import pytest

from tests.integration.rest_world import Rest, problem
from tests.support.canary import canary
from tidings.actions.chat.chats import GetChat
from tidings.cli.serve import JsonLines
from tidings.model.limits import DAY_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_MS = DAY_MS // 24
FORGED = '\r\n{"level":"critical"}\n\x1b[31mred\x1b[0m \x00 \x85 \u2028 \u2029 \u202e \x7f'


def line_of(record: logging.LogRecord) -> str:
    return JsonLines().format(record)


@pytest.mark.attack("E09")
async def test_whatever_is_logged_stays_one_line_of_plain_characters() -> None:
    error = ValueError(FORGED)
    record = logging.LogRecord("tidings", logging.ERROR, "x", 1, FORGED, (), None)
    record.user_agent = FORGED
    record.deep = {FORGED: [FORGED]}
    record.exc_info = (ValueError, error, None)
    line = line_of(record)
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["user_agent"] == FORGED


@pytest.mark.attack("E09")
async def test_names_in_requests_cannot_write_lines_of_the_log(
    rest: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    backend = await rest.tenant()
    forged = "a%0D%0A%7B%22level%22:%22critical%22%7D%1B[31m%E2%80%A8"
    headers = {"User-Agent": "x\x1b[31m", "X-Request-Id": "x\x1b[31m"}
    with caplog.at_level(logging.DEBUG, logger="tidings"):
        await backend.call("GET", f"/v1/tenants/{forged}", headers=headers)
        await backend.call("GET", f"/v1/tenants/{'other'}", headers=headers)
    lines = [line_of(record) for record in caplog.records if record.name.startswith("tidings")]
    assert any("cross_tenant" in line for line in lines), "it was about something"
    assert all(line.isascii() and line.isprintable() for line in lines)


@pytest.mark.attack("H04")
@pytest.mark.parametrize(
    "path",
    [
        "/debug", "/debug/pprof", "/debug/vars", "/admin", "/admin/", "/actuator/env",
        "/server-status", "/status", "/console/x", "/schema", "/schema/openapi.json",
        "/graphql", "/.env", "/.git/config", "/v1/debug", "/v1/metrics", "/v1/config", "/root.key",
        "/server.json",
    ],
)  # fmt: skip
async def test_no_page_shows_operators_data_without_a_key(rest: Rest, path: str) -> None:
    for actor in (rest.nobody, await rest.user("ann"), await rest.tenant(), rest.root):
        for method in ("GET", "POST"):
            assert problem(await actor.call(method, path))[0] in (404, 405), actor.name


@pytest.mark.attack("H04", "H05")
async def test_a_failure_shows_nothing_of_the_inside(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await rest.user("ann")
    chat = await ann.group()

    async def fail(*_: object, **__: object) -> Any:
        raise RuntimeError(canary("inside"))

    monkeypatch.setattr(GetChat, "__call__", fail)
    answer = await ann.call("GET", f"/v1/chats/{chat}")
    assert problem(answer) == (500, "server.failed")
    shown = answer.text + str(answer.headers)
    for inside in ("Traceback", "RuntimeError", "canary", ".py", "inside"):
        assert inside not in shown


@pytest.mark.attack("H10")
async def test_the_log_says_who_wrote_what_when_and_that_it_was_changed(rest: Rest) -> None:
    ann, bob = await rest.user("ann"), await rest.user("bob")
    chat = await ann.group("bob")
    claimed = {"created_at": "1970-01-01T00:00:00Z", "sender_id": "bob"}
    for name, value in claimed.items():
        body = {"client_message_id": "m", "content": canary("m"), name: value}
        assert (await ann.call("POST", f"/v1/chats/{chat}/messages", body)).status_code == 400
    said = []
    for actor in (ann, bob):
        rest.clock.time += 1_000
        said.append(await actor.send(chat, f"by {actor.name}".replace(" ", "-")))
    rest.clock.time += 1_000
    path = f"/v1/chats/{chat}/messages"
    await ann.ok("PATCH", f"{path}/{said[0]['sequence']}", {"content": canary("changed")})
    for other in (await rest.tenant(), rest.root):
        refused = await other.call("PATCH", f"{path}/{said[0]['sequence']}", {"content": "forged"})
        assert problem(refused) == (403, "auth.forbidden")

    entries = (await bob.ok("GET", f"/v1/chats/{chat}/entries"))["data"]
    told = [(one["kind"], one["sender"], one.get("target")) for one in entries]
    first, second = (one["sequence"] for one in said)
    assert told[1:] == [
        ("message", "ann", None),
        ("message", "bob", None),
        ("edited", "ann", first),
    ]
    assert [one["sequence"] for one in entries] == list(range(1, len(entries) + 1))
    times = [one["created_at"] for one in entries]
    assert times == sorted(times) and len(set(times[1:])) == 3
    assert entries[first - 1]["edited_at"] == times[-1]
    assert "edited_at" not in entries[second - 1] or entries[second - 1]["edited_at"] is None


@pytest.mark.attack("H11")
async def test_a_clock_that_is_hours_off_changes_no_order(rest: Rest) -> None:
    ann, _ = await rest.users("ann", "bob")
    chat = await ann.group("bob")
    sent: list[int] = []
    for step in (0, -5 * HOUR_MS, 9 * HOUR_MS, -4 * HOUR_MS):
        rest.clock.time += step
        fresh = {"ann": await rest.user("ann"), "bob": await rest.user("bob")}
        sent.append((await fresh["ann"].send(chat, f"m{len(sent)}"))["sequence"])
        listed = await fresh["bob"].ok("GET", f"/v1/chats/{chat}/messages")
        assert [one["sequence"] for one in listed["data"]] == sent[::-1]
        chats = (await fresh["bob"].ok("GET", "/v1/chats"))["data"]
        assert next(one["unread"] for one in chats if one["chat_id"] == chat) == len(sent)
    assert sent == sorted(sent)


@pytest.mark.attack("H11")
async def test_a_token_from_a_clock_that_is_hours_ahead_does_not_count(rest: Rest) -> None:
    rest.clock.time += 5 * HOUR_MS
    ahead, other = await rest.users("ann", "bob")
    assert (await other.call("GET", "/v1/me")).status_code == 200
    rest.clock.time -= 5 * HOUR_MS  # as for another process, which has not met this token yet
    assert problem(await ahead.call("GET", "/v1/me")) == (401, "auth.required")
