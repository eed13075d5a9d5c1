# SPDX-License-Identifier: Apache-2.0
"""Writing all facts of a deployment as lines of JSON.

The same facts make the same bytes, whichever engine holds them: there is no time and no name of an
engine in an export. So two exports can be compared, and a move there and back be checked.
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
"""Those before lack kinds and fields of facts, and differ in nothing else."""
LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Ten times the largest entry: a file without line ends is not read into memory."""


class Tally:
    """Lines counted and digested as they pass."""

    def __init__(self) -> None:
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """A line, whatever it says."""
        self.lines += 1
        self._digest.update(line)

    def count(self, fact: Fact) -> None:
        """A line was this fact."""
        tag = fact.__struct_config__.tag
        assert isinstance(tag, str), "every fact has a name"
        self.counts[tag] += 1

    @property
    def progress(self) -> ExportProgress:
        """How far it has come."""
        return ExportProgress(self.lines, self._digest.hexdigest())

    def closing(self) -> ExportEnd:
        """What the last line has to say."""
        return ExportEnd(counts=dict(sorted(self.counts.items())), sha256=self._digest.hexdigest())


encode = msgspec.json.Encoder().encode


_PURPOSE: Final = b"tidings export\0"


class Unproven(Exception):
    """The file cannot be trusted; says why."""


class ExportProof:
    """Signs with the current master key, checks with any that is held."""

    def __init__(self, master: MasterKeys) -> None:
        self._master = master

    def sign(self, sha256: str) -> tuple[str, str]:
        """The id of the master key, and the keyed digest of a digest.

        Raises:
            Unproven: There is no master key.
        """
        current = self._master.current
        if current is None:
            raise Unproven("the master key is missing: without it nobody could trust the export")
        return current.key_id, _mac(current, sha256)

    def check(self, closing: ExportEnd) -> None:
        """Believe an export whose digest is that of its lines.

        Raises:
            Unproven: It was changed, or is not of a deployment with a master key that is held.
        """
        if closing.master_key_id is None or closing.mac is None:
            raise Unproven("it has no signature at its end")
        for key in self._held():
            if key.key_id == closing.master_key_id:
                if not hmac.compare_digest(
                    _mac(key, closing.sha256).encode(), closing.mac.encode()
                ):
                    raise Unproven("it was changed after it was exported")
                return
        raise Unproven(
            f"it is signed with the master key {closing.master_key_id}, which is not at hand: give "
            "the new deployment the master key of the old one first"
        )

    def _held(self) -> tuple[MasterKey, ...]:
        current = self._master.current
        return (*self._master.previous, *([current] if current is not None else []))


def _mac(key: MasterKey, sha256: str) -> str:
    derived = hmac.digest(key.secret, _PURPOSE, "sha256")
    return hmac.digest(derived, sha256.encode(), "sha256").hex()


class ChangedDuringExport(Exception):
    """Somebody wrote to these chats and inboxes during the export: it is of no use."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{len(names)} chats or inboxes changed during the export")
        self.names = names


class Exported(msgspec.Struct, frozen=True):
    """A finished export."""

    closing: ExportEnd
    jobs_elsewhere: int
    """Delivery jobs that are not done and not in the store: they stay behind."""


async def export_all(
    source: Source,
    now: int,
    write: Callable[[bytes], object],
    tell: Callable[[Tally], None],
    proof: ExportProof | None = None,
) -> Exported:
    """Write every fact that counts at `now`, and last how many there are.

    `tell` is called now and then with what was written so far. With a `proof` the end is signed.

    Raises:
        ChangedMeanwhile: What was written has no last line, and no import will take it.
    """
    tally = Tally()
    not_done = 0
    write(_line(tally, ExportStart(version=VERSION, epoch=source.epoch)))
    async for facts in source.facts(now):
        for fact in facts:
            tally.count(fact)
            not_done += _not_done(fact)
        write(b"".join(_line(tally, fact) for fact in facts))
        tell(tally)
    if changed := await source.changed():
        raise ChangedDuringExport(changed)
    closing = tally.closing()
    if proof is not None:
        key_id, mac = proof.sign(closing.sha256)
        closing = msgspec.structs.replace(closing, master_key_id=key_id, mac=mac)
    write(_line(tally, closing))
    return Exported(closing, max(0, not_done))


def _not_done(fact: Fact) -> int:
    """How many jobs a notification still waits for; one that travels is none to worry about."""
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
