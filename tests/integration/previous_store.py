# SPDX-License-Identifier: Apache-2.0
"""The stores of the version before, kept as text, with which the tests of an upgrade begin.

After a release, `python -m tests.integration.previous_store` writes the stores of that release.
"""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Final

import apsw

from scripts.services.dynamodb_local import DynamoDBLocal
from tests.integration.inbox_world import open_newsroom
from tests.integration.rest_world import Rest, open_rest
from tests.support.dynamo_tables import REGION, some_tables
from tests.support.engine import on_tables
from tidings.assembly.system import SystemClock
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.transport import open_transport
from tidings.stores.dynamodb.formats import PROCESS
from tidings.stores.dynamodb.tables import TABLES
from tidings.stores.sqlite.engine.connections import DATABASE

FILE: Final = Path(__file__).with_name("previous_store.sql")
ITEMS: Final = Path(__file__).with_name("previous_tables.jsonl")
_SECONDS_MAX: Final = 60.0
_BATCH: Final = 25
MASTER_KEY: Final = bytes(range(32))
TEXTS: Final = ("The first one", "the second, edited", "the third")


async def fill(rest: Rest) -> None:
    """Do something of each kind: people, chats, messages and their changes, notifications."""
    ann, bob = (await rest.users("ann", "bob", "carol"))[:2]
    chat = await ann.direct("bob")
    await ann.send(chat, "m1", TEXTS[0])
    sent = await ann.send(chat, "m2", "the second")
    path = f"/v1/chats/{chat}/messages/{sent['sequence']}"
    await ann.ok("PATCH", path, {"content": TEXTS[1]})
    await bob.ok("PUT", f"{path}/reactions/👍")
    await bob.send(chat, "m3", TEXTS[2])
    gone = await bob.send(chat, "m4", "redacted")
    await bob.ok("DELETE", f"/v1/chats/{chat}/messages/{gone['sequence']}")
    await bob.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sent["sequence"]})
    group = await bob.group("ann", "carol", name="Team")
    await bob.send(group, "g1", "for all")
    await bob.ok("DELETE", f"/v1/chats/{group}/members/carol")
    room = await open_newsroom(rest, "news")
    await room.tell_everyone("Hello all")


def load(folder: Path) -> None:
    """Make a data folder with the kept store; the master key comes from the settings."""
    folder.mkdir(mode=0o700)
    db = apsw.Connection(str(folder / DATABASE))
    db.execute(f"BEGIN;\n{FILE.read_text()}COMMIT").fetchall()
    db.close()


def dump(folder: Path) -> str:
    """Return the store in a folder as statements that make it: tables, rows, then the rest."""
    db = apsw.Connection(str(folder / DATABASE))
    everything = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    made = db.execute(everything).fetchall()
    tables = [(name, sql) for kind, name, sql in made if kind == "table"]
    lines = [_on_one_line(sql) for _, sql in tables]
    for name, _ in tables:
        rows = db.execute(f"SELECT * FROM {name}").fetchall()
        values = [", ".join(map(apsw.format_sql_value, row)) for row in rows]
        lines += [f"INSERT INTO {name} VALUES ({row});" for row in values]
    lines += [_on_one_line(sql) for kind, _, sql in made if kind != "table"]
    lines.append(f"PRAGMA user_version = {db.pragma('user_version')};")
    db.close()
    return "\n".join(lines) + "\n"


def _on_one_line(statement: object) -> str:
    """Return a statement without comments and line breaks."""
    return " ".join(re.sub(r"--[^\n]*", "", str(statement)).split()) + ";"


async def load_tables(endpoint: str, prefix: str) -> None:
    """Write the kept items into empty tables."""
    requests: dict[str, list[Item]] = {}
    for line in ITEMS.read_text().splitlines():
        table, item = json.loads(line)
        requests.setdefault(prefix + table, []).append({"PutRequest": {"Item": item}})
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table, puts in requests.items():
            for start in range(0, len(puts), _BATCH):
                batch = {"RequestItems": {table: puts[start : start + _BATCH]}}
                answer = await transport.send("BatchWriteItem", batch, until)
                assert not answer.get("UnprocessedItems")


async def dump_tables(endpoint: str, prefix: str) -> str:
    """Return all items of the tables, one per line with its table."""
    lines = []
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table in TABLES:
            answer = await transport.send("Scan", {"TableName": prefix + table.name}, until)
            assert "LastEvaluatedKey" not in answer, "one page has all"
            lines += [json.dumps([table.name, item], sort_keys=True) for item in answer["Items"]]
    # A running process of the version before would keep this one from starting.
    return "".join(f"{line}\n" for line in sorted(lines) if f'"{PROCESS}' not in line)


async def _write(folder: Path, endpoint: str) -> None:
    async with open_rest(folder / "data", master_key=MASTER_KEY) as rest:
        await fill(rest)
    FILE.write_text(dump(folder / "data"))
    async with some_tables(endpoint, streams=False) as prefix:
        settings = on_tables(endpoint, prefix)
        async with open_rest(folder / "keys", master_key=MASTER_KEY, settings=settings) as rest:
            await fill(rest)
        ITEMS.write_text(await dump_tables(endpoint, prefix))


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as folder:
        service = DynamoDBLocal(Path(folder) / "dynamodb")
        service.start()
        try:
            asyncio.run(_write(Path(folder), service.address))
        finally:
            service.stop()


if __name__ == "__main__":
    main()
