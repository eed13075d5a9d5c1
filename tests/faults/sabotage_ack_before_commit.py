# SPDX-License-Identifier: Apache-2.0
"""A server that answers before it commits: what the kill test exists to find.

Run in place of `python -m tidings`.
"""

import sys
import time
from concurrent.futures import Future
from typing import Final

from tidings.cli import main
from tidings.stores.sqlite.engine import writer
from tidings.stores.sqlite.engine.write_jobs import WriteJob

COMMIT_SECONDS: Final = 1.0
"""How long the answer to a send is a lie: a kill soon after it hits it, also on a busy machine."""

sends: list[bool] = []
"""Whether there are messages in the transaction that is not committed yet."""

honest_write_all = writer.Writer._write_all
honest_commit = writer.Writer._commit
honest_finish = writer.Writer._finish


def write_all_and_tell(self: writer.Writer, batch: list[WriteJob]) -> list[object]:
    outcomes = honest_write_all(self, batch)
    sends.append(any(job.entry_count for job in batch))
    for job, outcome in zip(batch, outcomes, strict=True):
        self._loop.call_soon(writer._settle, job, outcome)
    return outcomes


def commit_late(self: writer.Writer) -> None:
    if sends.pop():
        time.sleep(COMMIT_SECONDS)
    honest_commit(self)


def finish_without_telling(
    self: writer.Writer, commit: Future[None], batch: list[WriteJob], outcomes: list[object]
) -> None:
    honest_finish(self, commit, [], [])


if __name__ == "__main__":
    writer.Writer._write_all = write_all_and_tell  # type: ignore[method-assign]
    writer.Writer._commit = commit_late  # type: ignore[method-assign]
    writer.Writer._finish = finish_without_telling  # type: ignore[method-assign]
    sys.exit(main())
