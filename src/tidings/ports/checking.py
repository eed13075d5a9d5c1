# SPDX-License-Identifier: Apache-2.0
"""Checking a value by a schema that may take long: away from the event loop."""

from typing import Protocol


class TookTooLong(Exception):
    """The check was ended before it came to an end, and would be again."""


class CheckerBusy(Exception):
    """Nothing was checked; later it may be."""


class Checker(Protocol):
    """Checks values without holding anything else up."""

    async def is_valid(self, schema: dict[str, object], value: object) -> bool:
        """Whether the value is as the schema says.

        Raises:
            TookTooLong: It takes longer than a check may.
            CheckerBusy: Too many wait already.
        """
        ...
