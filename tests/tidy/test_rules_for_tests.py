# SPDX-License-Identifier: Apache-2.0
"""House rules for tests: how they wait, and what they may lean on. Each message names the cure."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.tidy.test_house_rules import TESTS, lines_matching, nodes_of, report, text_of

MAY_SLEEP: dict[str, set[str]] = {
    "waits for everybody else": {"tests/support/waiting.py"},
    "people who write and devices that come back do so at a pace": {
        "clients/python/tests/mortal_client.py",
        "clients/python/tests/test_cut_off.py",
        "clients/python/tests/test_restart.py",
        "tests/faults/many/evictions.py",
        "tests/faults/test_fleet_alerts_fire.py",
        "tests/faults/test_reconnect_storm.py",
        "tests/faults/workload.py",
        "tests/support/device.py",
    },
    "a fault lasts for a while": {
        "clients/python/tests/chaos_proxy.py",
        "tests/faults/faulty_server.py",
        "tests/faults/many/fleet.py",
        "tests/faults/many/nemesis.py",
        "tests/faults/sabotage_ack_before_commit.py",
        "tests/faults/test_alerts_fire.py",
        "tests/faults/test_inbox_kill.py",
    },
    "time is simulated, so waiting takes none": {"tests/unit/test_turns.py"},
    "a real server's clock has to move on": {
        "clients/python/tests/test_client.py",
        "tests/faults/many/many_run.py",
        "tests/faults/many/test_sabotage.py",
    },
}
"""Why a test waits for no condition, and where."""


def is_fixed_pause(node: ast.AST) -> bool:
    """Whether this is `time.sleep(x)`, `asyncio.sleep(x)` or `sleep(x)`, except with x = 0.

    A random moment, as in `sleep(chance.uniform(0, 3))`, synchronises with nothing.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[seconds, *_]):
            match seconds:
                case ast.Constant(value=0) | ast.Call(func=ast.Attribute(attr="uniform")):
                    return False
                case _:
                    return True
        case _:
            return False


def test_tests_do_not_sleep() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in TESTS
        if str(path) not in set().union(*MAY_SLEEP.values()) and "sleep" in text_of(path)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and is_fixed_pause(node)
    ]
    report("Wait for the condition with tests.support.waiting, or move the clock.", found)


def is_impatient_client(call: ast.Call) -> bool:
    """Whether this makes an HTTP client that gives up after the five seconds of httpx.

    A client that calls the application in this process does not wait for a socket.
    """
    match call.func:
        case ast.Attribute(value=ast.Name(id="httpx"), attr="AsyncClient" | "Client" | "get"):
            return not {"timeout", "transport"} & {each.arg for each in call.keywords}
        case _:
            return False


def test_http_clients_are_patient() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in TESTS
        if "httpx" in text_of(path)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and is_impatient_client(node)
    ]
    report("A busy machine needs longer: pass timeout=WAIT_SECONDS.", found)


def test_the_tests_wait_in_one_way() -> None:
    others = [path for path in TESTS if path != Path("tests/support/waiting.py")]
    found = lines_matching(re.compile(r"^(async )?def _*(until|wait_until|eventually)_*\("), others)
    report("Use `until` of tests.support.waiting.", found)


def test_what_supports_the_tests_does_not_lean_on_them() -> None:
    found = [
        f"{path}:{node.lineno} {node.module}"
        for path in TESTS
        if path.parent == Path("tests/support")
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("tests")
        and not (node.module or "").startswith("tests.support")
    ]
    report("Move what it needs to tests/support.", found)


def test_only_files_that_sleep_may() -> None:
    found = [
        f"{path} ({reason})"
        for reason, paths in MAY_SLEEP.items()
        for path in sorted(paths)
        if not any(map(is_fixed_pause, nodes_of(Path(path))))
    ]
    report("Take it off the list.", found)


def test_no_two_tests_have_the_same_id(request: pytest.FixtureRequest) -> None:
    """Workers side by side run the first of them, and nobody hears of the others."""
    times = Counter(item.nodeid for item in request.session.items)
    report("Give each case an id of its own.", [name for name, n in times.items() if n > 1])
