# SPDX-License-Identifier: Apache-2.0
"""The rules for the lines of a history from another system."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import NOW
from tidings.actions.export import history_lines
from tidings.actions.export.history_lines import BadHistory, check_history

ROOT = Path(__file__).parents[2]
TIME = "2026-01-01T12:00:00Z"
LATER = "2026-01-01T12:00:01Z"
START = {"kind": "tidings-history", "version": 1}
ANN, BOB = ({"kind": "user", "id": name, "created_at": TIME} for name in ("ann", "bob"))
GROUP = {
    "kind": "chat", "id": "c", "type": "group", "name": "Team", "members": ["ann", "bob"],
    "created_at": TIME,
}  # fmt: skip
MESSAGE = {
    "kind": "message", "chat": "c", "id": "m1", "sender": "ann", "created_at": LATER,
    "content": "hi",
}  # fmt: skip
GOOD = [START, ANN, BOB, GROUP, MESSAGE]


def lines(*objects: Any) -> list[bytes]:
    return [one if isinstance(one, bytes) else json.dumps(one).encode() for one in objects]


def reason(*objects: Any) -> str:
    with pytest.raises(BadHistory) as raised:
        check_history(lines(*objects), NOW)
    return str(raised.value)


def test_a_good_history_is_counted() -> None:
    direct = {**GROUP, "id": "d", "type": "direct", "name": None}
    assert check_history(lines(*GOOD, direct, {**MESSAGE, "id": "m2"}), NOW) == {
        "user": 2,
        "chat": 2,
        "message": 2,
    }


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{", "line 6: "),
        (b"\xff", "line 6: "),
        (START, "line 6: the first line, and only the first"),
        ({**ANN, "email": "a@b"}, "line 6: Object contains unknown field `email`"),
        ({**ANN, "id": "a b"}, "line 6: user_id must be"),
        ({**ANN, "display_name": ""}, "line 6: name"),
        ({**ANN, "created_at": "yesterday"}, "line 6: must be a time like"),
        ({**ANN, "created_at": "2100-01-01T00:00:00Z"}, "line 6: 2100-01-01T00:00:00Z is in the"),
        (GROUP, "line 6: there is a chat c already"),
        ({**GROUP, "id": ""}, "line 6: id must have"),
        ({**GROUP, "id": "d", "members": ["ann", "eve"]}, "no line before names the user eve"),
        ({**GROUP, "id": "d", "members": []}, "no line before names the user (nobody)"),
        ({**GROUP, "id": "d", "members": ["ann", "ann"]}, "a member is named twice"),
        ({**GROUP, "id": "d", "name": None}, "name: a group needs a name"),
        ({**MESSAGE, "chat": "d"}, "no line before names the chat d"),
        ({**MESSAGE, "sender": "eve"}, "eve is not a member of c"),
        ({**MESSAGE, "id": "a b"}, "client_message_id: must be"),
        ({**MESSAGE, "content": ""}, "line 6: "),
        ({**MESSAGE, "content": "x" * 4_097}, "content has more than 4096 bytes"),
        ({**MESSAGE, "content_type": "text"}, "content_type: must be a media type"),
        ({**MESSAGE, "created_at": TIME}, "it is older than the line before it"),
    ],
)
def test_a_bad_line_is_named_with_the_reason(bad: Any, why: str) -> None:
    found = reason(*GOOD, bad)
    assert why in found
    assert found.startswith("line 6: ")


def test_the_first_line_names_the_version() -> None:
    assert reason(ANN).startswith("line 1: the first line")
    assert reason({**START, "version": 2}).startswith("line 1: this version of Tidings reads")


def test_all_bad_lines_are_named_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_lines, "BAD_LINES_MAX", 2)
    found = reason(*GOOD, GROUP, MESSAGE, GROUP, GROUP)
    assert [line.split(":")[0] for line in found.splitlines()] == ["line 6", "line 8"]


def test_the_converter_of_the_guide_makes_a_good_history() -> None:
    page = (ROOT / "docs/how-to/import-from-elsewhere.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    table = f"time,room,author,text\n{LATER},Lunch,bob,Pizza?\n{TIME},Lunch,ann,Hungry\n"
    made = subprocess.run(
        [sys.executable, "-c", program], input=table.encode(), capture_output=True, check=True
    )
    found = made.stdout.splitlines()
    assert check_history(found, NOW) == {"user": 2, "chat": 1, "message": 2}
    assert json.loads(found[-1])["content"] == "Pizza?"


def test_the_example_of_the_guide_is_a_good_history() -> None:
    page = (ROOT / "docs/how-to/import-from-elsewhere.md").read_bytes()
    example = [line for line in page.splitlines() if line.startswith(b'{"kind"')]
    assert check_history(example, NOW) == {"user": 2, "chat": 1, "message": 1}
