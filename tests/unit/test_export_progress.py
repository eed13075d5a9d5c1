# SPDX-License-Identifier: Apache-2.0
"""Parts of moving on their own: patience with the tables, and telling how far it is."""

import io
from typing import Any, cast

import msgspec
import pytest

from tidings.actions.export.exporting import Tally
from tidings.cli.export import TallyLine
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.notification_states import BroadcastStates
from tidings.model.notifications import (
    Broadcast,
    Copy,
    InboxConfig,
    Notification,
    ReadState,
)
from tidings.model.refusals import StoreUnavailable
from tidings.ports.audit import AuditEntry
from tidings.ports.bus import DeadLetter, Job
from tidings.ports.export_facts import (
    AuditFact,
    EntryFact,
    IssuerFact,
    SessionFact,
    SigningKeyFact,
    TenantFact,
    TenantKeyFact,
    UserFact,
    entry_fact,
    to_entry,
)
from tidings.ports.export_feature_facts import TenantJobFact
from tidings.ports.export_inbox_facts import (
    BroadcastFact,
    BroadcastStatesFact,
    CopyFact,
    DeadLetterFact,
    InboxFact,
    JobFact,
    NotificationFact,
    PostKeyFact,
    ReadStateFact,
)
from tidings.ports.inboxes import PostKey
from tidings.ports.people import Quotas, SigningKey, Tenant, TenantKey, TokenIssuer, User
from tidings.ports.sessions import Session
from tidings.ports.tenant_jobs import TenantJob
from tidings.stores.dynamodb.client.retrying import Rejected, RequestError, Throttled
from tidings.stores.dynamodb.client.transport import Transport
from tidings.stores.dynamodb.export.scanning import ATTEMPTS_MAX, PatientDynamo
from tidings.stores.dynamodb.patterns import READ_VALUE

# Patience.


class Least:
    """Always the smallest number: no pause at all."""

    def token(self, size: int) -> bytes:
        return bytes(size)


class Wire:
    """Answers each request with the next of these, and then always with nothing found."""

    def __init__(self, *answers: RequestError | None) -> None:
        self._answers = list(answers)

    async def send(self, operation: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise answer
        return {"ConsumedCapacity": {"CapacityUnits": 1}}


def patient(waits: list[int], *answers: RequestError | None) -> PatientDynamo:
    async def back_off(attempt: int) -> None:
        waits.append(attempt)

    transport = cast(Transport, Wire(*answers))
    return PatientDynamo(transport, Least(), prefix="", back_off=back_off)


async def test_being_turned_away_is_no_reason_to_stop() -> None:
    waits: list[int] = []
    dynamo = patient(waits, None, *[Throttled() for _ in range(20)])
    await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"})
    assert await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"}) is None
    assert waits == [1, 2, 3]


async def test_even_patience_has_an_end() -> None:
    waits: list[int] = []
    dynamo = patient(waits, None, *[Throttled() for _ in range(9_999)])
    await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"})
    with pytest.raises(StoreUnavailable):
        await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"})
    assert len(waits) == ATTEMPTS_MAX - 1


async def test_who_never_answered_is_not_waited_for() -> None:
    waits: list[int] = []
    with pytest.raises(StoreUnavailable):
        await patient(waits, *[Throttled() for _ in range(99)]).get(READ_VALUE, {"pk": "a"})
    assert waits == []


async def test_a_refusal_is_believed() -> None:
    waits: list[int] = []
    dynamo = patient(waits, None, Rejected("AccessDeniedException", "no"))
    await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"})
    with pytest.raises(StoreUnavailable):
        await dynamo.get(READ_VALUE, {"pk": "a", "sk": "b"})
    assert waits == []


# Entries.


def test_every_stored_field_of_an_entry_travels() -> None:
    """A new field must be added to the format, or be one that is never stored."""
    only_in_memory = {"mine", "shown", "content", "blocked", "gone", "attachments"}
    as_a_send_key = {"digest"}
    missing = set(Entry.__struct_fields__) - set(EntryFact.__struct_fields__)
    assert missing == only_in_memory | as_a_send_key


def test_content_whose_time_is_over_stays_behind() -> None:
    entry = Entry(
        chat_id=ChatId("c"), kind="message", sender=UserKey("a:b"), box=b"x", box_key=2,
        expires_at=10, reactions={"b": 1, "a": 2},
    )  # fmt: skip
    assert to_entry(entry_fact(entry, 9)) == entry
    assert list(entry_fact(entry, 9).reactions or {}) == ["a", "b"]
    late = entry_fact(entry, 10)
    assert (late.box, late.box_key, late.expires_at) == (None, 0, 10)


# People.


@pytest.mark.parametrize(
    ("noun", "fact", "gone", "instead"),
    [
        (Tenant, TenantFact, {"quotas"}, {f"quota_{name}" for name in Quotas.__struct_fields__}),
        (TenantKey, TenantKeyFact, set(), set()),
        (SigningKey, SigningKeyFact, set(), set()),
        (TokenIssuer, IssuerFact, set(), set()),
        (TenantJob, TenantJobFact, set(), set()),
        (User, UserFact, {"user"}, {"user_id"}),
        (Session, SessionFact, {"user", "revoked_at"}, {"user_id"}),
    ],
)
def test_every_field_of_people_travels(
    noun: type[msgspec.Struct], fact: type[msgspec.Struct], gone: set[str], instead: set[str]
) -> None:
    assert set(fact.__struct_fields__) == set(noun.__struct_fields__) - gone | instead


# The inbox.


@pytest.mark.parametrize(
    ("noun", "fact", "more"),
    [
        (InboxConfig, InboxFact, {"tenant", "inbox"}),
        (Notification, NotificationFact, {"finished_jobs"}),
        (Broadcast, BroadcastFact, {"is_last"}),
        (PostKey, PostKeyFact, {"tenant", "inbox", "key"}),
        (Copy, CopyFact, {"user_id", "inbox"}),
        (ReadState, ReadStateFact, {"user_id", "inbox"}),
        (BroadcastStates, BroadcastStatesFact, {"user_id", "inbox"}),
        (Job, JobFact, set()),
        (DeadLetter, DeadLetterFact, set()),
        (AuditEntry, AuditFact, set()),
    ],
)
def test_every_field_of_the_inbox_travels(
    noun: type[msgspec.Struct], fact: type[msgspec.Struct], more: set[str]
) -> None:
    """A new field must be added to the format, with what it is where nothing is said of it."""
    # The states of single broadcasts are facts of their own.
    assert set(fact.__struct_fields__) == set(noun.__struct_fields__) - {"broadcasts"} | more
    defaults = {one.name: one.default for one in msgspec.structs.fields(fact) if not one.required}
    said = {one.name: one.default for one in msgspec.structs.fields(noun) if not one.required}
    said.pop("broadcasts", None)
    assert said.items() <= defaults.items(), "an old file must still mean the same"


# Telling.


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_told_now_and_then(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    tally = Tally()
    with TallyLine("exported") as line:
        for _ in range(1_000):
            tally.add(b"{}\n")
            line(tally)
    told = screen.getvalue()
    assert "exported 1 lines, 0 chats" in told
    assert told.count("exported") < 1_000
    assert told.endswith("\r\033[K" if is_terminal else "\n")
