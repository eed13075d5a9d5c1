# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs that nobody could do, for the operator: what they are, once more, or never."""

import re
from dataclasses import dataclass
from typing import Final

from tidings.model.refusals import CursorInvalid, JobNotFound, QueueUnavailable
from tidings.ports.jobs import DeadLetter, DeadLetters, Jobs, JobsUnavailable

ASIDE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}-[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class DeadLetterJobs:
    """Jobs set aside. Nothing here looks at who asks."""

    aside: DeadLetters
    jobs: Jobs

    async def page(self, cursor: str | None, limit: int) -> tuple[list[DeadLetter], str | None]:
        """Some of them, and the cursor of the next; None at the end.

        Raises:
            CursorInvalid: It is none.
        """
        if cursor is not None and ASIDE.fullmatch(cursor) is None:
            raise CursorInvalid
        found = await self.aside.page(after=cursor, limit=limit + 1)
        page = found[:limit]
        return page, page[-1].aside_id if len(found) > limit else None

    async def replay(self, aside_id: str) -> DeadLetter:
        """Back into the queue, for whoever runs jobs.

        Raises:
            JobNotFound: It is not among them.
            QueueUnavailable: It stays where it is, and may come again.
        """
        found = await self._get(aside_id)
        try:
            await self.jobs.put([found.job])
        except JobsUnavailable as error:
            raise QueueUnavailable from error
        await self.aside.drop(aside_id)
        return found

    async def drop(self, aside_id: str) -> None:
        """Nobody will do it. Its users have no copy unless they got one before.

        Raises:
            JobNotFound: It is not among them.
        """
        await self._get(aside_id)
        await self.aside.drop(aside_id)

    async def _get(self, aside_id: str) -> DeadLetter:
        is_one = ASIDE.fullmatch(aside_id) is not None
        found = await self.aside.get(aside_id) if is_one else None
        if found is None:
            raise JobNotFound
        return found
