# SPDX-License-Identifier: Apache-2.0
"""`tidings state`, `connections`, `explain` and `audit`: what they ask for, and what they print."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.small_deployment import ROOT_KEY
from tests.unit.stub_server import stub_server
from tidings.cli import main, state

Say = Callable[..., tuple[list[str], list[str]]]
NOTHING = {"p50": None, "p99": None}
PROCESS: dict[str, Any] = {
    "name": "a1",
    "host": "h1",
    "pid": 7,
    "roles": ["gateway", "api"],
    "version": "0.1.0",
    "status": "ready",
    "started_at": "T1",
    "sockets": 2,
    "rates": {"messages": 1.5},
    "latencies": {"send": {"p99": 0.005}, "delivery": NOTHING},
    "lags": {"bus_seconds": None, "sees_revocations": True, "failing_loops": 0},
}
LATE = PROCESS | {
    "name": "b2",
    "status": "silent",
    "lags": {"bus_seconds": 3.5, "sees_revocations": False, "failing_loops": 2},
}
STATE: dict[str, Any] = {
    "complete": True,
    "totals": {"processes": 1, "sockets": 2, "rates": {"messages": 1.5}},
    "processes": [PROCESS, LATE],
    "store": {
        "engine": "sqlite",
        "location": "/data",
        "size_bytes": 12_345_678,
        "free_bytes": 9 * 10**15,
    },
    "backups": {"newest_at": "T0", "age_seconds": 5_400},
    "settings": [
        {"name": "port", "value": "80", "source": "--port", "secret": False},
        {"name": "metrics", "value": None, "source": "default", "secret": False},
        {"name": "root_key", "value": None, "source": "TIDINGS_ROOT_KEY", "secret": True},
    ],
}
CONNECTION = {
    "connection_id": "c1",
    "process": "a1",
    "device": "phone",
    "address": None,
    "client": "web/1",
    "since": "T1",
    "away": True,
    "chats": 4,
    "behind": 1,
    "window": 1000,
    "unacknowledged": 3,
    "last_received_at": "T2",
}
ACT = {
    "at": "T1",
    "actor": "tenant_key",
    "actor_id": "k1",
    "action": "put_user",
    "tenant": "acme",
    "target": "bob",
    "fields": ["deactivated=true"],
    "outcome": "refused",
    "code": "user.deleted",
    "request_id": None,
}


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Type a command to a server that gives one answer; the printed lines, and the paths."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TIDINGS_ROOT_KEY", ROOT_KEY)
    monkeypatch.chdir(tmp_path)

    def typed(answer: object, *words: str) -> tuple[list[str], list[str]]:
        with stub_server(lambda _: (200, answer)) as server:
            assert main([*words, "--server", server.url]) == 0
        assert {asked.bearer for asked in server.asked} == {ROOT_KEY}
        return capsys.readouterr().out.splitlines(), [asked.path for asked in server.asked]

    return typed


def test_the_state_is_one_line_a_process_and_the_store(say: Say) -> None:
    lines, paths = say(STATE, "state")
    assert paths == ["/v1/state"]
    assert lines == [
        "1 processes  2 sockets  1.5 messages/s",
        "a1  ready  gateway,api  h1 pid 7  0.1.0  since T1  2 sockets  1.5 messages/s  "
        "send p99 0.005 s",
        "b2  silent  gateway,api  h1 pid 7  0.1.0  since T1  2 sockets  1.5 messages/s  "
        "send p99 0.005 s  bus 3.5 s  reads no revocations  2 failing loops",
        "sqlite  /data  12.3 MB  9e+03 TB free",
        "newest backup  T0  1.5 hours ago",
    ]


def test_settings_are_shown_with_their_sources_and_no_secret(say: Say) -> None:
    lines, _ = say(STATE, "state", "--settings")
    assert lines[-3:] == [
        "port  80  --port",
        "metrics  (none)  default",
        "root_key  (secret)  TIDINGS_ROOT_KEY",
    ]


@pytest.mark.parametrize(("engine", "last"), [("sqlite", "no backup"), ("dynamodb", "dynamodb  x")])
def test_what_is_unknown_is_said(say: Say, engine: str, last: str) -> None:
    store = {"engine": engine, "location": "x", "size_bytes": None, "free_bytes": None}
    backups = {"newest_at": None, "age_seconds": None}
    lines, _ = say(STATE | {"complete": False, "store": store, "backups": backups}, "state")
    assert lines[0].endswith("  other processes are unknown: Redis does not answer")
    assert lines[-1] == last


def test_connections_of_a_user(say: Say) -> None:
    found = {"data": [CONNECTION], "complete": True}
    lines, paths = say(found, "connections", "acme", "a/b")
    assert paths == ["/v1/tenants/acme/users/a%2Fb/connections"]
    assert lines == [
        "c1  phone  web/1  since T1  3 of 1000 unacknowledged  1 of 4 chats behind  "
        "received T2  away  on a1"
    ]
    quiet = CONNECTION | {"behind": 0, "last_received_at": None, "away": False}
    [line], _ = say({"data": [quiet], "complete": True}, "connections", "acme", "bob")
    assert line == "c1  phone  web/1  since T1  3 of 1000 unacknowledged  on a1"
    assert say({"data": [], "complete": True}, "connections", "acme", "bob")[0] == [
        "bob is not connected."
    ]
    lines, _ = say({"data": [], "complete": False}, "connections", "acme", "bob")
    assert lines == ["A process did not answer, so connections may be missing."]


def test_acts_are_listed_up_to_the_limit(say: Say) -> None:
    page = {"data": [ACT, ACT], "next_cursor": "more"}
    lines, paths = say(page, "audit", "--limit", "3")
    assert paths == ["/v1/audit?limit=3", "/v1/audit?limit=3&cursor=more"]
    line = "T1  tenant_key k1  put_user  acme  bob  deactivated=true  refused  user.deleted"
    assert lines == [line] * 3
    end = {"data": [ACT | {"actor": "root", "actor_id": None, "fields": []}], "next_cursor": None}
    lines, paths = say(end, "audit", "acme")
    assert paths == ["/v1/tenants/acme/audit?limit=50"]
    assert lines == ["T1  root  put_user  acme  bob  refused  user.deleted"]


def test_an_answer_that_is_no_json_is_printed_as_it_is(say: Say) -> None:
    assert say(b"# TYPE up gauge\nup 1\n", "api", "GET", "/metrics") == (
        ["# TYPE up gauge", "up 1"],
        ["/metrics"],
    )


def test_what_users_wrote_stays_on_its_line_and_orders_nothing(say: Say) -> None:
    content = "ha\x1b]0;title\x07\n3  T3  message  bob  forged"
    entry = {"sequence": 2, "created_at": "T2", "kind": "message", "sender": "ann"}
    log = {"data": [entry | {"content": content}]}
    lines, _ = say(log, "chats", "log", "acme", "c", "--reason", "a court")
    assert lines == ["2  T2  message  ann  ha ]0;title  3  T3  message  bob  forged"]
    report: dict[str, Any] = {
        "report_id": "r",
        "created_at": "T1",
        "state": "open",
        "reason": "spam",
    }
    report |= {"user_id": "ann", "reporter_id": "bob", "chat_id": None, "content": content}
    found = {"data": [report | {"comment": "a\nb"}], "next_cursor": None}
    [line], _ = say(found, "reports", "acme")
    assert line.endswith("ha ]0;title  3  T3  message  bob  forged  a b")


EXPLAINED = {
    "verdict": "It is gone.",
    "code": "erased",
    "since": "unknown",
    "timeline": [{"at": "T1", "what": "accepted", "where": "log, sequence 2"}],
    "next_step": None,
}


def test_a_message_is_explained(say: Say) -> None:
    lines, paths = say(EXPLAINED, "explain", "acme", "bob", "--message", "m.2", "--request", "r")
    assert paths == ["/v1/tenants/acme/explain?user_id=bob&message_id=m.2&request_id=r"]
    assert lines == ["erased  It is gone.  since unknown", "T1  accepted  log, sequence 2"]
    words = ("explain", "acme", "bob", "--notification", "b1", "--inbox", "news")
    lines, paths = say({**EXPLAINED, "next_step": "Say it again."}, *words)
    assert lines[-1] == "Say it again."
    assert paths == ["/v1/tenants/acme/explain?user_id=bob&notification_id=b1&inbox=news"]


STEP = {
    "at": "T1",
    "what": "written_to_socket",
    "where": "device phone, connection c1",
    "user_id": "bob",
    "chat_id": "C",
    "sequence": 2,
}
REFUSED = STEP | {"what": "refused", "where": "content.empty, socket", "sequence": None}
TRACE = {"data": [STEP, REFUSED], "next_cursor": "c2", "complete": False}


def test_deliveries_are_traced(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(state, "monotonic", lambda: 100.0 + sum(waits))
    monkeypatch.setattr(state, "sleep", waits.append)
    lines, paths = say(TRACE, "trace", "acme", "--user", "bob", "--seconds", "1.5")
    first, second = [f"/v1/tenants/acme/trace?user_id=bob{more}" for more in ("", "&cursor=c2")]
    assert (paths, waits) == ([first, second, second], [1.0, 0.5])
    assert lines[:3] == [
        "There were too many steps: some are missing here.",
        "T1  written_to_socket  bob  C.2  device phone, connection c1",
        "T1  refused  bob  content.empty, socket",
    ]
    _, paths = say(TRACE, "trace", "acme", "--chat", "C", "--seconds", "0")
    assert paths == ["/v1/tenants/acme/trace?chat_id=C"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (TRACE, ("trace", "acme", "--user", "bob", "--seconds", "0")),
        (EXPLAINED, ("explain", "acme", "bob", "--message", "m.2")),
        ({"data": [CONNECTION], "complete": True}, ("connections", "acme", "bob")),
        ({"data": [ACT], "next_cursor": None}, ("audit",)),
        (STATE, ("state",)),
    ],
)
def test_programs_get_json(say: Say, answer: dict[str, Any], words: tuple[str, ...]) -> None:
    lines, _ = say(answer, *words, "--json")
    assert [json.loads(line) for line in lines] == answer.get("data", [answer])
