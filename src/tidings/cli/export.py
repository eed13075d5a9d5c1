# SPDX-License-Identifier: Apache-2.0
"""`tidings export` and `tidings import`: write a deployment to a file, and read it into a store."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tidings.actions.chat.retention import Retention
from tidings.actions.export.exporting import (
    LINE_BYTES_MAX,
    ChangedDuringExport,
    Exported,
    Tally,
    Unproven,
    export_all,
)
from tidings.actions.export.history import HistoryImport
from tidings.actions.export.history_lines import BadHistory, BadLine, check_history
from tidings.actions.export.importing import Damaged, Imported, OtherImport, check, import_all
from tidings.actions.identity.audit import Intent
from tidings.assembly.system import SystemChance, SystemClock
from tidings.cli.terminal import ProgressLine
from tidings.config import Config
from tidings.model.setup_error import SetupError
from tidings.ports.export_facts import ExportEnd

STANDARD: Final = "-"
"""File name that means standard output or standard input."""
CHANGED: Final = 1
"""Exit code of an export during which the store changed."""
NAMED_MAX: Final = 10

_PART: Final = ".part"
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""Flags to create a file. Opening fails if the file exists, because it then belongs to somebody
else, or to an export that is running."""
_LOG_SECONDS: Final = 10.0


class TallyLine(ProgressLine):
    """Shows the progress of an export or import; in a log file, as a line every ten seconds."""

    def __init__(self, word: str) -> None:
        super().__init__(_LOG_SECONDS)
        self._word = word

    def __call__(self, tally: Tally) -> None:
        if self.is_due:
            self.show(f"{self._word} {tally.lines:,} lines, {tally.counts['chat']:,} chats")


class HistoryProgress(ProgressLine):
    """Shows how many lines of a history are imported."""

    def __call__(self, number: int) -> None:
        if self.is_due:
            self.show(f"imported {number:,} lines")


def add_moving_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `tidings export` and `tidings import` share."""
    parser.add_argument(
        "file", metavar="FILE", help="the file; - is standard output, or standard input"
    )


def add_import_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings import`."""
    add_moving_options(parser)
    parser.add_argument(
        "--unsigned",
        action="store_true",
        help="accept a file without checking its signature; older versions wrote none",
    )
    parser.add_argument(
        "--history",
        metavar="TENANT",
        help="the file is a history from another system: add its users, chats and messages to this"
        " tenant of a store that need not be empty",
    )
    parser.add_argument(
        "--check", action="store_true", help="with --history: only check the lines of the file"
    )


def export(config: Config, options: argparse.Namespace) -> int:
    """Write all data to a file; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store does not answer.
    """
    try:
        exported = asyncio.run(_export(config, options.file))
    except Unproven as reason:
        raise SetupError(str(reason)) from None
    except ChangedDuringExport as changed:
        named = ", ".join(changed.names[:NAMED_MAX])
        raise SetupError(
            f"{changed}: stop all servers and export again. Among them: {named}",
            exit_code=CHANGED,
        ) from None
    print(f"Exported {_facts(exported.closing)}.", file=sys.stderr)
    if exported.jobs_elsewhere:
        print(
            f"tidings: {exported.jobs_elsewhere:,} unfinished delivery jobs are in a queue "
            "outside the store, and are not part of the export",
            file=sys.stderr,
        )
    return 0


async def _export(config: Config, file: str) -> Exported:
    from tidings.assembly.foundation import export_proof
    from tidings.assembly.stores import open_blobs, open_source

    proof, clock = export_proof(config), SystemClock()
    with _written(file) as out:
        async with (
            open_source(config) as source,
            open_blobs(config, clock, SystemChance()) as blobs,
        ):
            with TallyLine("exported") as line:
                return await export_all(source, clock.now(), out.write, line, proof, blobs)


def import_(config: Config, options: argparse.Namespace) -> int:
    """Import facts into an empty store, or a history into a tenant; return the exit code.

    With `--unsigned`, the signature of the file is not checked: the operator trusts the file.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store does not answer; the same command continues the import.
    """
    if options.history is not None:
        return _import_history(config, options)
    try:
        done = asyncio.run(_import(config, options.file, unsigned=options.unsigned))
    except Unproven as reason:
        raise SetupError(
            f"{_named(options.file)} cannot be trusted: {reason}. If you know where it comes from, "
            "import it with --unsigned"
        ) from None
    except Damaged as reason:
        raise SetupError(f"{_named(options.file)} is not a complete export: {reason}") from None
    except OtherImport:
        raise SetupError(
            "the store contains part of another export: continue with that one, or start over "
            "with an empty store"
        ) from None
    print(f"Imported {_facts(done.closing)}.")
    print(f"Master key needed to read it: {', '.join(sorted(done.master_keys)) or 'any'}.")
    return 0


async def _import(config: Config, file: str, *, unsigned: bool) -> Imported:
    from tidings.assembly.foundation import export_proof
    from tidings.assembly.stores import open_blobs, open_target

    proof = None if unsigned else export_proof(config)
    if file != STANDARD:
        # This refuses a damaged file before anything is written. A pipe can be read only once.
        with _read(file) as lines:
            check(lines, proof)
    with _read(file) as lines:
        async with (
            open_target(config) as target,
            open_blobs(config, SystemClock(), SystemChance()) as blobs,
        ):
            with TallyLine("imported") as line:
                return await import_all(target, lines, line, proof, blobs)


def _import_history(config: Config, options: argparse.Namespace) -> int:
    if options.file == STANDARD:
        raise SetupError("a history is read twice, so it cannot come from standard input")
    try:
        # This refuses a file with mistakes before anything is written.
        with _read(options.file) as lines:
            counts = check_history(lines, SystemClock().now())
        named = ", ".join(f"{count:,} {kind}s" for kind, count in counts.items())
        print(f"{options.file} has {named}.")
        if not options.check:
            appended = asyncio.run(_add_history(config, options.file, options.history))
            print(f"Imported; {appended:,} messages are new.")
    except (BadHistory, BadLine) as reason:
        raise SetupError(f"{options.file} cannot be imported:\n{reason}") from None
    return 0


async def _add_history(config: Config, file: str, tenant: str) -> int:
    from tidings import assembly

    async with assembly.open_for_maintenance(config) as core:
        found = await core.store.tenants.get(tenant)
        if found is None:
            raise SetupError(f"there is no tenant {tenant}: create it with `tidings tenant create`")
        if found.deleted_at is not None:
            raise SetupError(f"the tenant {tenant} is deleted")
        retention = Retention(core.store.inbox_settings, core.clock)
        history = HistoryImport(core.store, core.vault, retention, core.clock, core.chance, tenant)
        with _read(file) as lines, HistoryProgress(_LOG_SECONDS) as line:
            async with core.audit.act(Intent("cli", None, "import_history", tenant)):
                await history.run(lines, line)
        await retention.close()
        return history.messages


def _facts(closing: ExportEnd) -> str:
    counts = closing.counts
    names = (("user", "users"), ("chat", "chats"), ("entry", "entries"))
    listed = ", ".join(f"{counts.get(tag, 0):,} {name}" for tag, name in names)
    return f"{listed}, {sum(counts.values()):,} facts in total"


def _named(file: str) -> str:
    return "standard input" if file == STANDARD else file


@contextmanager
def _written(file: str) -> Iterator[IO[bytes]]:
    """Open the file of an export. It gets its name only when it is complete and on the disk."""
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if path.exists():
        raise SetupError(f"{file} already exists")
    part = path.with_name(path.name + _PART)
    try:
        opened = os.open(part, _NEW_FILE, 0o600)
    except OSError as error:
        raise SetupError(f"{part} cannot be created: {error.strerror or error}") from error
    try:
        with os.fdopen(opened, "wb") as out:
            # Only the owner may read the file, whatever the umask is: it has names, phone numbers
            # and memberships.
            os.fchmod(opened, 0o600)
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.rename(path)
    except OSError as error:
        raise SetupError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _read(file: str) -> Iterator[Iterator[bytes]]:
    """Open an export and iterate over its lines."""
    if file == STANDARD:
        yield _lines(sys.stdin.buffer)
        return
    try:
        opened = Path(file).open("rb")
    except OSError as error:
        raise SetupError(f"{file} cannot be read: {error.strerror}") from error
    with opened:
        yield _lines(opened)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(LINE_BYTES_MAX):
        yield line
