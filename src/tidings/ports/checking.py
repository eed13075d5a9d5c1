# SPDX-License-Identifier: Apache-2.0
"""Port for schema checks that may take long, and therefore run outside the event loop."""

from typing import Protocol


class TookTooLong(Exception):
    """The check was stopped at its time limit; a repeat would be stopped too."""


class CheckerBusy(Exception):
    """Nothing was checked, because too many checks wait; try again later."""


class Checker(Protocol):
    """Checker that does not delay other work while it runs."""

    async def is_valid(self, schema: dict[str, object], value: object) -> bool:
        """Return whether the value conforms to the schema.

        Raises:
            TookTooLong: The check takes longer than the time limit.
            CheckerBusy: Too many checks wait already.
        """
        ...
