# SPDX-License-Identifier: Apache-2.0
"""A worker that says it delivered, head copy and offset included, and hands nothing over.

Run in place of `python -m tidings`.
"""

import sys
from collections.abc import Collection, Sequence

from tidings.cli import main
from tidings.delivery import dispatch
from tidings.model.ids import UserKey


async def hand_nothing(
    self: dispatch.GatewayDispatch, batches: Sequence[dispatch.Batch], members: Collection[UserKey]
) -> None:
    """As if everyone had been found."""


if __name__ == "__main__":
    dispatch.GatewayDispatch.dispatch = hand_nothing  # type: ignore[method-assign]
    sys.exit(main())
