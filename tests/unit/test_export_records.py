# SPDX-License-Identifier: Apache-2.0
"""Records of a person's export: what they have, and what must not be in them."""

import json

import pytest

from tests.support.clock import NOW
from tests.support.users import ANN
from tidings.actions.jobs.export_records import parts_of, profile_record, session_record
from tidings.model import limits
from tidings.ports.people import User
from tidings.ports.sessions import Session

TIME = "2027-01-15T08:00:00.000Z"


def test_a_session_is_shown_without_its_secrets() -> None:
    session = Session(
        session_id="s1",
        user=ANN,
        device="phone",
        refresh_digest=b"secret",
        created_at=NOW,
        rotated_at=NOW,
        expires_at=NOW,
    )
    assert session_record(session) == {
        "kind": "session",
        "session_id": "s1",
        "device": "phone",
        "created_at": TIME,
        "last_used_at": TIME,
        "expires_at": TIME,
    }


def test_a_profile_is_whole_and_has_times_as_text() -> None:
    user = User(user=ANN, display_name="Ann", phone_number="+1", created_at=NOW, updated_at=NOW)
    record = profile_record(user)
    assert "user" not in record
    assert (record["user_id"], record["display_name"], record["phone_number"]) == (
        "ann",
        "Ann",
        "+1",
    )
    assert (record["created_at"], record["deactivated_at"]) == (TIME, None)


def test_a_part_is_small_however_many_records_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPORT_PART_CHARS_MAX", 30)
    records = [{"kind": "x", "n": number, "t": "a\nb"} for number in range(5)]
    parts = list(parts_of(records))
    assert len(parts) == 5
    assert [json.loads(line) for part in parts for line in part.split("\n")] == records
    assert list(parts_of([])) == []
