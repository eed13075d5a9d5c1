# SPDX-License-Identifier: Apache-2.0
"""Writing all facts of a deployment as lines of JSON, with a signed digest at the end.

The same facts make the same bytes on every engine: an export contains neither its time nor the name
of an engine. Two exports can therefore be compared, and a move there and back can be verified.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from tidings.model.limits import JOB_USERS_MAX
from tidings.ports.export_facts import ExportEnd, ExportProgress, ExportStart, Fact, Line, Source
from tidings.ports.export_inbox_facts import DeadLetterFact, JobFact, NotificationFact
from tidings.ports.secrets import MasterKey, MasterKeys

VERSION: Final = 4
VERSIONS_READ: Final = frozenset({1, 2, 3, VERSION})
"""Readable versions; earlier versions only lack some kinds and fields of facts."""
LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Ten times the largest entry, so that a file without line ends is not read into memory."""


class Tally:
    """Running count and digest of the lines of an export."""

    def __init__(self) -> None:
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Count and digest a line of any kind."""
        self.lines += 1
        self._digest.update(line)

    def count(self, fact: Fact) -> None:
        """Count a fact by its kind."""
        tag = fact.__struct_config__.tag
        assert isinstance(tag, str), "every fact has a name"
        self.counts[tag] += 1

    @property
    def progress(self) -> ExportProgress:
        """Number and digest of the lines so far."""
        return ExportProgress(self.lines, self._digest.hexdigest())

    def closing(self) -> ExportEnd:
        """Return the last line of the export, unsigned."""
        return ExportEnd(counts=dict(sorted(self.counts.items())), sha256=self._digest.hexdigest())


encode = msgspec.json.Encoder().encode


_PURPOSE: Final = b"tidings export\0"


class Unproven(Exception):
    """The file cannot be trusted; the text gives the reason."""


class ExportProof:
    """Signature of an export: made by the current master key, checked by any available key."""

    def __init__(self, master: MasterKeys) -> None:
        self._master = master

    def sign(self, sha256: str) -> tuple[str, str]:
        """Return the id of the master key, and its MAC of the digest.

        Raises:
            Unproven: There is no master key.
        """
        current = self._master.current
        if current is None:
            raise Unproven("the master key is missing: the export cannot be signed without it")
        return current.key_id, _mac(current, sha256)

    def check(self, closing: ExportEnd) -> None:
        """Check the signature of an export whose digest has been compared with its lines.

        Raises:
            Unproven: It was changed, or it was signed with a master key that is not available.
        """
        if closing.master_key_id is None or closing.mac is None:
            raise Unproven("it has no signature at its end")
        for key in self._available():
            if key.key_id == closing.master_key_id:
                if not hmac.compare_digest(
                    _mac(key, closing.sha256).encode(), closing.mac.encode()
                ):
                    raise Unproven("it was changed after it was exported")
                return
        raise Unproven(
            f"it is signed with the master key {closing.master_key_id}, which is not available: "
            "give the new deployment the master key of the old deployment first"
        )

    def _available(self) -> tuple[MasterKey, ...]:
        current = self._master.current
        return (*self._master.previous, *([current] if current is not None else []))


def _mac(key: MasterKey, sha256: str) -> str:
    derived = hmac.digest(key.secret, _PURPOSE, "sha256")
    return hmac.digest(derived, sha256.encode(), "sha256").hex()


class ChangedDuringExport(Exception):
    """Chats or inboxes changed during the export, so it cannot be used."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{len(names)} chats or inboxes changed during the export")
        self.names = names


class Exported(msgspec.Struct, frozen=True):
    """A finished export."""

    closing: ExportEnd
    jobs_elsewhere: int
    """Number of unfinished delivery jobs outside the store, which the export does not contain."""


async def export_all(
    source: Source,
    now: int,
    write: Callable[[bytes], object],
    report: Callable[[Tally], None],
    proof: ExportProof | None = None,
) -> Exported:
    """Write every fact that is valid at `now`, then a last line with their counts.

    `report` is called with the tally after each batch. A `proof` signs the last line.

    Raises:
        ChangedDuringExport: The file has no last line, and no import accepts it.
    """
    tally = Tally()
    not_done = 0
    write(_line(tally, ExportStart(version=VERSION, epoch=source.epoch)))
    async for facts in source.facts(now):
        for fact in facts:
            tally.count(fact)
            not_done += _not_done(fact)
        write(b"".join(_line(tally, fact) for fact in facts))
        report(tally)
    if changed := await source.changed():
        raise ChangedDuringExport(changed)
    closing = tally.closing()
    if proof is not None:
        key_id, mac = proof.sign(closing.sha256)
        closing = msgspec.structs.replace(closing, master_key_id=key_id, mac=mac)
    write(_line(tally, closing))
    return Exported(closing, max(0, not_done))


def _not_done(fact: Fact) -> int:
    """Return a notification's unfinished jobs; a job in the export counts as -1."""
    match fact:
        case NotificationFact() if fact.box is not None:
            return -(-fact.recipients // JOB_USERS_MAX) - len(fact.finished_jobs)
        case JobFact() | DeadLetterFact():
            return -1
        case _:
            return 0


def _line(tally: Tally, line: Line) -> bytes:
    text = encode(line) + b"\n"
    tally.add(text)
    return text
