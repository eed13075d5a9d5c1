# SPDX-License-Identifier: Apache-2.0
"""A worker that says it delivered, head copy and offset included, and hands nothing over.

Run in place of `python -m tidings`.
"""

import sys
from collections.abc import Collection, Sequence

from tidings.cli import main
from tidings.delivery import handing
from tidings.model.ids import UserKey


async def hand_nothing(
    self: handing.Handing, loads: Sequence[handing.Load], members: Collection[UserKey]
) -> None:
    """As if everyone had been found."""


if __name__ == "__main__":
    handing.Handing.hand = hand_nothing  # type: ignore[method-assign]
    sys.exit(main())
