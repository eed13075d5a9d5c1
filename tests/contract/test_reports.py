# SPDX-License-Identifier: Apache-2.0
"""Reports: one for each reporter and subject, listed by state, changed by one at a time."""

import msgspec

from tests.contract.builders import a_report, new_chat_id
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT
from tidings.model.reports import REPORT_MS, Report, ReportState
from tidings.ports.people import Listed

TENANT = "acme"
CHAT = new_chat_id()


async def listed(store: Store, state: ReportState | None = None, **where: object) -> list[str]:
    page = await store.reports.page(
        TENANT,
        state,
        **({"below": None, "limit": 9, "now": NOW} | where),  # type: ignore[arg-type]
    )
    return [report.report_id for report in page.rows]


async def test_a_report_is_kept_with_all_its_fields(engine: Engine) -> None:
    report = a_report(
        ANN, BOB, chat_id=CHAT, sequence=7, client_message_id="m1", content_type="text/x",
        sent_at=5, box=b"box", box_key=2, comment=b"comment", comment_key=3,
        files=b"files",
    )  # fmt: skip
    assert report.subject == f"{CHAT}.7"
    async with engine.open() as store:
        assert await store.reports.add(report) == report.report_id
    async with engine.open() as store:
        assert await store.reports.find(TENANT, report.report_id, NOW) == report
        assert await store.reports.find("other", report.report_id, NOW) is None
        assert await store.reports.find(TENANT, report.report_id, report.expires_at) is None
        assert await listed(store, now=report.expires_at) == []


async def test_a_user_reports_a_thing_once(store: Store) -> None:
    first = a_report(ANN, BOB, chat_id=CHAT, sequence=3)
    again = a_report(ANN, BOB, chat_id=CHAT, sequence=3, reason="abuse")
    others = [
        a_report(ANN, BOB, chat_id=CHAT, sequence=4),
        a_report(ANN, BOB),
        a_report(CAT, BOB, chat_id=CHAT, sequence=3),
    ]
    assert await store.reports.add(first) == await store.reports.add(again) == first.report_id
    for other in others:
        assert await store.reports.add(other) == other.report_id
    assert set(await listed(store)) == {one.report_id for one in (first, *others)}

    later = first.expires_at
    new = a_report(
        ANN, BOB, chat_id=CHAT, sequence=3, created_at=later, expires_at=later + REPORT_MS
    )
    assert await store.reports.add(new) == new.report_id, "the first has expired"


async def test_reports_are_listed_by_state_newest_first(store: Store) -> None:
    made = [a_report(ANN, user) for user in (BOB, CAT)] + [a_report(BOB, ANN)]
    for report in made:
        await store.reports.add(report)
    first, second, third = made
    closed = msgspec.structs.replace(second, state="resolved", note=b"n", updated_at=NOW)
    assert await store.reports.change(second, closed)

    assert await listed(store) == [one.report_id for one in (third, second, first)]
    assert await listed(store, "open") == [third.report_id, first.report_id]
    assert await listed(store, "resolved") == [second.report_id]
    assert await listed(store, "dismissed") == []
    page = await store.reports.page(TENANT, None, below=None, limit=2, now=NOW)
    assert [one.report_id for one in page.rows] == [third.report_id, second.report_id]
    rest = await store.reports.page(TENANT, None, below=page.end, limit=2, now=NOW)
    assert rest == Listed([first], None)
    assert await store.reports.find(TENANT, second.report_id, NOW) == closed


async def test_of_two_changes_at_once_one_counts(store: Store) -> None:
    report = a_report(ANN, BOB)
    await store.reports.add(report)
    noted = msgspec.structs.replace(report, note=b"n", note_key=1, updated_at=NOW)
    closed = _closed(report, NOW + 1)
    assert await store.reports.change(report, noted)
    assert not await store.reports.change(report, closed)
    assert await store.reports.find(TENANT, report.report_id, NOW) == noted
    assert await store.reports.change(noted, _closed(noted, NOW + 2))
    assert not await store.reports.change(noted, closed)
    assert await listed(store, "dismissed") == [report.report_id]


def _closed(report: Report, now: int) -> Report:
    return msgspec.structs.replace(report, state="dismissed", updated_at=now)
