# SPDX-License-Identifier: Apache-2.0
"""List, replay and drop dead letters: delivery jobs that failed too often."""

import re
from dataclasses import dataclass
from typing import Final

from tidings.model.refusals import CursorInvalid, JobNotFound, QueueUnavailable
from tidings.ports.bus import DeadLetter, DeadLetters, Jobs, JobsUnavailable

ASIDE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}-[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class DeadLetterJobs:
    """Dead letters of the delivery queue. The caller's rights are not checked here."""

    aside: DeadLetters
    jobs: Jobs

    async def page(self, cursor: str | None, limit: int) -> tuple[list[DeadLetter], str | None]:
        """Return a page of dead letters and the cursor of the next page; None at the end.

        Raises:
            CursorInvalid: The cursor is malformed.
        """
        if cursor is not None and ASIDE.fullmatch(cursor) is None:
            raise CursorInvalid
        found = await self.aside.page(after=cursor, limit=limit + 1)
        page = found[:limit]
        return page, page[-1].aside_id if len(found) > limit else None

    async def replay(self, aside_id: str) -> DeadLetter:
        """Put a dead letter back into the queue and return it.

        Raises:
            JobNotFound: There is no such dead letter.
            QueueUnavailable: The dead letter remains; its job may have been queued all the same.
        """
        found = await self._get(aside_id)
        try:
            await self.jobs.put([found.job])
        except JobsUnavailable as error:
            raise QueueUnavailable from error
        await self.aside.drop(aside_id)
        return found

    async def drop(self, aside_id: str) -> None:
        """Delete a dead letter; its users get no copy, except those who already have it.

        Raises:
            JobNotFound: There is no such dead letter.
        """
        await self._get(aside_id)
        await self.aside.drop(aside_id)

    async def _get(self, aside_id: str) -> DeadLetter:
        is_id = ASIDE.fullmatch(aside_id) is not None
        found = await self.aside.get(aside_id) if is_id else None
        if found is None:
            raise JobNotFound
        return found
