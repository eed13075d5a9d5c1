# SPDX-License-Identifier: Apache-2.0
"""What the tables are asked when they are opened: whether they are there, and are all there."""

from typing import Final

from tidings.model.refusals import StoreUnavailable
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.moved import value_key
from tidings.stores.dynamodb.patterns import READ_VALUE
from tidings.stores.dynamodb.trouble import Rejected, StoreRefused

EPOCH: Final = value_key("epoch")
IMPORT: Final = value_key("import")
"""There while an import is not finished: how far it has come."""


async def first_answer(dynamo: Dynamo) -> str | None:
    """The epoch, if there is one; asking for it tells whether the tables are there.

    Raises:
        StoreRefused: They are not.
    """
    try:
        found = await dynamo.get(READ_VALUE, EPOCH)
    except StoreUnavailable as unavailable:
        cause = unavailable.__cause__
        if isinstance(cause, Rejected) and cause.code == "ResourceNotFoundException":
            raise StoreRefused(
                f"there are no tables with the prefix {dynamo.prefix!r}: "
                "`tidings schema apply` makes them"
            ) from cause
        raise
    return None if found is None else str(found["value"])


async def refuse_unfinished(dynamo: Dynamo) -> None:
    """Do not open what is half imported.

    Raises:
        StoreRefused: It is.
    """
    if await dynamo.get(READ_VALUE, IMPORT) is not None:
        raise StoreRefused(
            "an import into these tables is not finished: run `tidings import` with the same file "
            "again, which goes on where it stopped, or begin anew with another prefix"
        )
