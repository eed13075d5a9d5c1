# SPDX-License-Identifier: Apache-2.0
"""The store of the version before, kept as text, with which the tests of an upgrade begin.

After a release, `python -m tests.integration.previous_store` writes the store of that release.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import apsw

from tests.integration.inbox_world import open_newsroom
from tests.integration.rest_world import Rest, open_rest
from tidings.stores.sqlite.engine.connections import DATABASE

FILE: Final = Path(__file__).with_name("previous_store.sql")
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
    lines = [f"{sql};" for _, sql in tables]
    for name, _ in tables:
        rows = db.execute(f"SELECT * FROM {name}").fetchall()
        values = [", ".join(map(apsw.format_sql_value, row)) for row in rows]
        lines += [f"INSERT INTO {name} VALUES ({row});" for row in values]
    lines += [f"{sql};" for kind, _, sql in made if kind != "table"]
    lines.append(f"PRAGMA user_version = {db.pragma('user_version')};")
    db.close()
    return "\n".join(lines) + "\n"


async def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_rest(Path(folder) / "data", master_key=MASTER_KEY) as rest:
            await fill(rest)
        FILE.write_text(dump(Path(folder) / "data"))


if __name__ == "__main__":
    asyncio.run(_write())
