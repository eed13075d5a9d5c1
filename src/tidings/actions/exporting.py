# SPDX-License-Identifier: Apache-2.0
"""Writing all facts of a deployment as lines of JSON.

The same facts make the same bytes, whichever engine holds them: there is no time and no name of an
engine in an export. So two exports can be compared, and a move there and back be checked.
"""

from collections.abc import Callable

import msgspec

from tidings.actions.export_proofs import ExportProof
from tidings.actions.tallying import VERSION, Tally, encode
from tidings.model.limits import JOB_USERS_MAX
from tidings.ports.moving import Closing, Fact, Line, Opening, Source
from tidings.ports.moving_inbox import JobFact, NotificationFact, SetAsideFact


class ChangedMeanwhile(Exception):
    """Somebody wrote to these chats and inboxes during the export: it is of no use."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{len(names)} chats or inboxes changed during the export")
        self.names = names


class Exported(msgspec.Struct, frozen=True):
    """A finished export."""

    closing: Closing
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
    write(_line(tally, Opening(version=VERSION, epoch=source.epoch)))
    async for facts in source.facts(now):
        for fact in facts:
            tally.count(fact)
            not_done += _not_done(fact)
        write(b"".join(_line(tally, fact) for fact in facts))
        tell(tally)
    if changed := await source.changed():
        raise ChangedMeanwhile(changed)
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
        case JobFact() | SetAsideFact():
            return -1
        case _:
            return 0


def _line(tally: Tally, line: Line) -> bytes:
    text = encode(line) + b"\n"
    tally.add(text)
    return text
