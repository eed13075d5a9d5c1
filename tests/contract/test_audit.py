# SPDX-License-Identifier: Apache-2.0
"""The audit trail: by time, for each tenant and for all, appended to and completed once."""

from pathlib import Path

import apsw
import pytest

from tests.contract.engines import Engine, SqliteEngine, Store
from tests.contract.moving_ground import Place, export_from, import_into
from tests.contract.moving_places import OTHER, Places
from tidings.model.limits import AUDIT_MS, DAY_MS
from tidings.ports.audit import Act, AuditEntry
from tidings.stores.dynamodb.identity import audit as dynamodb_audit
from tidings.stores.sqlite.engine.connections import DATABASE

NOW = 1_900_000_000_000
MONTH_MS = 31 * DAY_MS
END = (NOW + DAY_MS, "")


def an_entry(number: int, tenant: str = "acme", **fields: object) -> AuditEntry:
    """The one with this number; a higher one is later."""
    at = NOW + number
    values: dict[str, object] = {
        "at": at,
        "entry_id": f"{number % 65536:016x}",
        "tenant": tenant,
        "actor": "tenant_key",
        "actor_id": "0123456789abcdef",
        "action": "put_user",
        "fields": ("display_name", "deactivated=true"),
        "acts": (Act(at, f"user-{number}", f"request-{number}"),),
    }
    return AuditEntry(**{**values, **fields})  # type: ignore[arg-type]


async def listed(
    store: Store, tenant: str | None, before: tuple[int, str] = END, limit: int = 100
) -> list[AuditEntry]:
    return await store.audit.page(tenant, since=NOW - AUDIT_MS, before=before, limit=limit)


async def test_a_tenant_has_its_own_entries_and_all_are_all(store: Store) -> None:
    entries = [an_entry(0), an_entry(1, "acme-2"), an_entry(2, ""), an_entry(3)]
    for entry in entries:
        await store.audit.append(entry)
    assert await listed(store, "acme") == [entries[3], entries[0]]
    assert await listed(store, "acme-2") == [entries[1]]
    assert await listed(store, "a") == []
    assert await listed(store, None) == entries[::-1]


async def test_an_outcome_is_added_once(engine: Engine) -> None:
    async with engine.open() as store:
        begun = an_entry(0)
        await store.audit.append(begun)
        done = an_entry(0, outcome="done", acts=(Act(NOW, "made", "request-0"),))
        await store.audit.complete(done)
        await store.audit.complete(an_entry(0, outcome="refused", code="user.not_found"))
        await store.audit.append(an_entry(0, action="other"))
        await store.audit.complete(an_entry(7, outcome="done"))
        refused = an_entry(1, outcome="refused", code="user.not_found")
        await store.audit.append(an_entry(1))
        await store.audit.complete(refused)
    async with engine.open() as store:
        assert await listed(store, "acme") == [refused, done]
        assert await listed(store, None) == [refused, done]


async def test_pages_together_are_the_whole_trail_over_the_months(store: Store) -> None:
    tenants = ("acme", "acme-2", "")
    entries = [
        an_entry(-number * MONTH_MS - step, tenants[(number + step) % 3])
        for number in range(4)
        for step in range(4)
    ]
    for entry in entries:
        await store.audit.append(entry)
    for tenant in (None, "acme", ""):
        own = [one for one in entries if tenant in (None, one.tenant)]
        for limit in (1, 3, 100):
            seen: list[AuditEntry] = []
            while page := await listed(store, tenant, seen[-1].position if seen else END, limit):
                assert len(page) <= limit
                seen += page
            assert seen == own


async def test_what_is_older_than_400_days_is_not_shown(store: Store) -> None:
    young, old = an_entry(-AUDIT_MS), an_entry(-AUDIT_MS - 1)
    await store.audit.append(young)
    await store.audit.append(old)
    assert await listed(store, "acme") == [young]
    assert await listed(store, None) == [young]


async def test_the_sweeper_takes_what_is_older_and_nothing_else(tmp_path: Path) -> None:
    """Of the embedded store; the other one deletes by time itself."""
    async with SqliteEngine(tmp_path / "data").open() as store:
        for entry in (an_entry(0), an_entry(1)):
            await store.audit.append(entry)
        assert await store.sweeping.forget_keys(NOW + AUDIT_MS - 1, 10) == 0
        assert await store.sweeping.forget_keys(NOW + AUDIT_MS, 10) == 1
        assert await listed(store, "acme") == [an_entry(1)]


async def test_no_program_changes_what_stands_in_the_file(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path / "data").open() as store:
        await store.audit.append(an_entry(0, outcome="done"))
        await store.audit.append(an_entry(1))
    db = apsw.Connection(str(tmp_path / "data" / DATABASE))
    for change in (
        "outcome = 'failed' WHERE outcome = 'done'",
        "actor_id = 'another' WHERE outcome IS NULL",
        "tenant = 'another' WHERE outcome IS NULL",
        "at = 1 WHERE outcome IS NULL",
    ):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            db.execute(f"UPDATE audit SET {change}")
    db.close()


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_it_travels_from_one_engine_to_the_other(
    place: Place, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb_audit, "PAGE_ITEMS", 3)
    async with place.open() as store:
        base = store.deployment.epoch
        for number in range(20):
            tenant = ("acme", "acme-2", "")[number % 3]
            at = 1_800_000_000_000 - number * DAY_MS * 3
            outcome = (None, "done", "refused")[number % 3]
            code = "user.not_found" if outcome == "refused" else None
            entry = an_entry(at - NOW, tenant, outcome=outcome, code=code)
            await store.audit.append(entry)
    there = await export_from(place)
    assert there.count(b'"fact":"audit"') == 20
    async with places.new(OTHER[type(place).__name__]) as other:
        await import_into(other, there)
        assert await export_from(other) == there
        async with other.open() as store:
            assert store.deployment.epoch == base
