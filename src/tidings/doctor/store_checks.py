# SPDX-License-Identifier: Apache-2.0
"""Checks of the master key, and of the store: the embedded one, or the tables on DynamoDB."""

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from tidings.actions.content.vault import DIGEST_KEY
from tidings.assembly.foundation import master_keys
from tidings.assembly.system import SystemChance
from tidings.config import DynamoDb
from tidings.doctor.findings import Finding, Subject, fault, fine, warning
from tidings.doctor.reaching import compare_clocks, judge_latency, reach, reached_in
from tidings.model import formats
from tidings.model.setup_error import SetupError, optional_import
from tidings.stores.sqlite.engine.checkpoints import RESTART_PAGES
from tidings.stores.sqlite.engine.connections import DATABASE, RESTORING, open_to_read
from tidings.stores.sqlite.engine.schema import VERSION, migrate, refuse_newer

if TYPE_CHECKING:
    from tidings.stores.dynamodb.schema.differences import Difference, Kind

LOG_BYTES_MAX: Final = 4 * RESTART_PAGES * 4_096
"""Size of a write-ahead log that was not restarted for a long time, because some program keeps
reading the database."""
DYNAMODB_SECONDS_SLOW: Final = 0.100
_WRONG_KEY: Final = (
    "give the server the key with which the store was sealed: "
    "docs/how-to/keep-the-master-key-safe.md"
)
_STOPPING: "Final[tuple[Kind, ...]]" = (
    "table_missing", "key_wrong", "index_missing", "index_wrong", "stream_off", "stream_wrong",
)  # fmt: skip
"""Differences because of which requests fail. Other differences cost money or safety."""


def judge_keys(subject: Subject, sealed_by: set[str]) -> Iterator[Finding]:
    """Compare the master keys of the settings with those that wrap the secrets of the store."""
    keys = master_keys(subject.config, SystemChance())
    known = {key.key_id for key in (keys.current, *keys.previous) if key is not None}
    if keys.current is None and sealed_by:
        yield fault("the master key is missing: the server does not start", _WRONG_KEY)
    elif sealed_by - known:
        others = ", ".join(sorted(sealed_by - known))
        yield fault(f"the store was sealed with another master key ({others})", _WRONG_KEY)
    elif keys.previous:
        yield warning(
            "a rotation of the master key is not finished", "run `tidings keys rotate` again"
        )
    elif keys.current is None:
        yield fine("there is no master key yet: the first start creates it")
    else:
        yield fine(f"the master key is {keys.current.key_id}: keep a copy apart from the data")


async def look_at_database(subject: Subject) -> AsyncIterator[Finding]:
    """Check the database file of the embedded store: schema, indexes, log, and keys."""
    folder = subject.config.data
    path = folder / DATABASE
    if (folder / RESTORING).exists():
        yield fault(
            f"a restore into {folder} is not finished, so the server does not start",
            f"run `tidings restore` again, or delete {folder / RESTORING}",
        )
    elif not path.exists():
        yield fine("there is no store yet: the first start creates it")
        for finding in judge_keys(subject, set()):
            yield finding
    else:
        with open_to_read(folder, leaves_files=False) as db:
            sealed_by = {row[0] for row in db.execute("SELECT master_key_id FROM sealed_secrets")}
            found = [*_schema(db, path), *_work_left(db, path), *judge_keys(subject, sealed_by)]
        for finding in found:
            yield finding


def _schema(db: apsw.Connection, path: Path) -> Iterator[Finding]:
    version = db.pragma("user_version")
    try:
        is_newer = refuse_newer(db)
    except SetupError as reason:
        yield fault(f"{path}: {reason}", "see docs/operations/runbooks/upgrade.md#how-to-go-back")
        return
    if is_newer:
        yield fine(f"{path} has schema {version} of a newer version, which this version may use")
        return
    told = f"SQLite {apsw.sqlite_lib_version()}, schema {version}"
    if version < VERSION:
        yield fine(f"{told}: the next start migrates it to {VERSION}; make a backup first")
        return
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    missing = [(kind, name, sql) for kind, name, sql in _declared() if name not in there]
    for kind, name, sql in missing:
        if kind == "table":
            cure = "restore a backup: docs/operations/backup.md#restore"
            yield fault(f"{path} has no table {name}", cure)
        else:
            cure = f'stop the server, then: sqlite3 {path} "{" ".join(sql.split())}"'
            yield warning(f"{path} has no {kind} {name}", cure)
    if not missing:
        yield fine(told)


def _declared() -> list[tuple[str, str, str]]:
    """Return type, name and statement of everything in the schema of this version."""
    with closing(apsw.Connection(":memory:")) as db:
        migrate(db)
        rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return [(str(kind), str(name), str(sql)) for kind, name, sql in rows]


def _work_left(db: apsw.Connection, path: Path) -> Iterator[Finding]:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LOG_BYTES_MAX:
        yield warning(
            f"{log} has {size / 1e6:,.0f} MB, because something has read the store for long",
            "end commands that run for hours (lsof shows them), and restart the server",
        )
    aside = int(db.execute("SELECT count(*) FROM jobs_aside").get)
    if aside:
        yield warning(
            f"{aside:,} delivery jobs failed too often and are dead letters",
            "look at them with `tidings jobs list`: docs/operations/runbooks/jobs-aside.md",
        )


async def look_at_tables(subject: Subject) -> AsyncIterator[Finding]:
    """Check the tables on DynamoDB: whether they answer, their declaration, formats, and keys."""
    with optional_import():
        from tidings.stores.dynamodb.schema.live import LiveTables, aws_client
    tables = subject.config.store
    assert isinstance(tables, DynamoDb), "the check is for tables"
    if tables.endpoint is not None:
        await reach(tables.endpoint)
    async with aws_client("dynamodb", endpoint=tables.endpoint, region=tables.region) as client:
        differences = await LiveTables(client, tables.prefix).differences()
        for finding in judge_tables(differences, tables):
            yield finding
        if "tenants" in {each.table.name for each in differences if each.kind == "table_missing"}:
            return
        epoch, seconds = await reached_in(lambda: _value(client, tables, "epoch"))
        yield judge_latency("DynamoDB", seconds, DYNAMODB_SECONDS_SLOW)
        yield compare_clocks(subject, "DynamoDB", _date(epoch))
        for finding in judge_formats(epoch.get("Item")):
            yield finding
        secret = (await _value(client, tables, f"secret#{DIGEST_KEY}")).get("Item")
        for finding in judge_keys(subject, {secret["master_key_id"]["S"]} if secret else set()):
            yield finding


def judge_tables(found: "list[Difference]", tables: DynamoDb) -> Iterator[Finding]:
    """Judge everything that is not as declared; equal differences are one finding."""
    if tables.local_endpoint is not None:
        # Tables of a developer's machine are created without protection and TTL.
        found = [each for each in found if each.kind in _STOPPING]
    if not found:
        yield fine("all tables and indexes are as declared")
    for (kind, says), group in groupby(
        sorted(found, key=lambda each: (each.kind, each.says)), lambda each: (each.kind, each.says)
    ):
        differing = list(group)
        names = ", ".join(each.named(tables.prefix) for each in differing)
        by_hand = "`tidings schema plan` shows it; a person has to decide: docs/reference/tables.md"
        cure = "run `tidings schema apply`" if differing[0].curable else by_hand
        yield (fault if kind in _STOPPING else warning)(f"{names}: {says}", cure)


async def _value(client: Any, tables: DynamoDb, name: str) -> dict[str, Any]:  # noqa: ANN401
    key = {"pk": {"S": "deployment"}, "sk": {"S": name}}
    answer: dict[str, Any] = await client.get_item(
        TableName=f"{tables.prefix}tenants", Key=key, ConsistentRead=True
    )
    return answer


def _date(answer: dict[str, Any]) -> str | None:
    headers: dict[str, str] = answer["ResponseMetadata"]["HTTPHeaders"]
    return headers.get("date")


def judge_formats(epoch: dict[str, Any] | None) -> Iterator[Finding]:
    """Compare the format in which the tables are written with those of this version."""
    if epoch is None:
        yield fine("the tables are empty: the first start fills them")
        return
    written = int(epoch.get("writes", {"N": "0"})["N"])
    if written > formats.NEWEST:
        yield fault(
            f"the tables are written in format {written}, and this version reads up to "
            f"{formats.NEWEST}",
            "install the newer version on this machine",
        )
    elif written < formats.OLDEST:
        yield fault(
            f"the tables are in format {written} of an older version, beside which this one must "
            "not run",
            "stop all processes of the older version, then run `tidings schema fill`",
        )
    elif written < formats.NEWEST:
        yield warning(
            f"the tables are still written in format {written}, not {formats.NEWEST}",
            "when every process has this version, run `tidings schema fill`",
        )
    else:
        yield fine(f"the tables are written in format {written}")
