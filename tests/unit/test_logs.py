# SPDX-License-Identifier: Apache-2.0
"""The log: every action is declared with its fields, and a line names its requests."""

import json
import logging

import pytest

from scripts.logs_page import LogCall, log_calls
from tests.support.log_lines import undeclared
from tidings.cli.serve import JsonLines
from tidings.logs.declared import ACTIONS
from tidings.logs.requests import Requests, current_requests, for_requests
from tidings.tasks import BackgroundQueue, Tasks

CALLS = log_calls()


def a_line(action: str = "serving", **fields: object) -> dict[str, object]:
    record = logging.makeLogRecord({"msg": "text", "action": action, **fields})
    line: dict[str, object] = json.loads(JsonLines().format(record))
    return line


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.place)
def test_a_line_of_code_that_logs_has_a_declared_action_and_fields(call: LogCall) -> None:
    assert call.action in ACTIONS, f"{call.place}: declare it in src/tidings/logs/declared.py"
    assert call.fields <= set(ACTIONS[call.action].fields)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_declared_action_is_logged_with_all_its_fields_at_one_level(name: str) -> None:
    calls = [call for call in CALLS if call.action == name]
    assert set().union(*(call.fields for call in calls)) == set(ACTIONS[name].fields)
    assert len({call.level for call in calls}) == 1


def test_every_module_that_logs_was_read() -> None:
    assert len(CALLS) > 70
    assert {call.logger for call in CALLS} > {"tidings.store", "tidings.gateway", "tidings.sms"}


def test_a_record_with_an_undeclared_field_is_found() -> None:
    known = {"action": "serving", "url": "http://127.0.0.1"}
    assert undeclared(logging.makeLogRecord({"name": "tidings.api", **known})) is None
    for wrong in ({"action": "unheard_of"}, {**known, "token": "abc"}):
        assert undeclared(logging.makeLogRecord({"name": "tidings.api", **wrong})) is not None
    assert undeclared(logging.makeLogRecord({"name": "asyncio"})) is None


@pytest.mark.parametrize(
    ("requests", "fields"),
    [
        ((), {}),
        (("abc",), {"request": "abc"}),
        ((("c1", "7"),), {"request": "c1/7"}),
        (("abc", ("c1", "7"), "abc"), {"requests": ["abc", "c1/7"]}),
    ],
)
def test_a_line_names_its_requests(requests: Requests, fields: dict[str, object]) -> None:
    with for_requests(requests):
        line = a_line()
    assert {name: line[name] for name in ("request", "requests") if name in line} == fields
    assert current_requests() == ()


async def test_queued_work_keeps_the_request_that_queued_it() -> None:
    seen: list[Requests] = []

    async def work() -> None:
        seen.append(current_requests())

    queue = BackgroundQueue("test", workers=1, waiting_max=10, close_seconds=1)
    with for_requests(("abc",)):
        queue.put("key", work)
    queue.put("key", work)
    await queue.settled()
    await queue.close()
    assert seen == [("abc",), ()]


async def test_work_for_many_callers_names_no_request() -> None:
    seen: list[Requests] = []

    async def work() -> None:
        seen.append(current_requests())

    tasks = Tasks("test")
    with for_requests(("abc",)):
        tasks.start(work())
    await tasks.finish()
    assert seen == [()]
