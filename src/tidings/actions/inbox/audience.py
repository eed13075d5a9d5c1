# SPDX-License-Identifier: Apache-2.0
"""Check the users who are listed in a post."""

import asyncio
from typing import Final

from tidings.model import limits
from tidings.model.ids import USER
from tidings.model.refusals import Invalid, TooLarge

SLICE_USERS: Final = 2_000
"""Number of user ids checked per turn of the event loop, which takes about a millisecond."""


async def distinct_users(uids: list[str]) -> list[str]:
    """Return each user once, in the given order; refuse malformed ids, and too many distinct users.

    Long lists are checked in slices, so that the event loop is not blocked.
    """
    if not uids:
        raise Invalid("uids must contain at least one user", "/audience/uids")
    distinct: dict[str, None] = {}
    for start in range(0, len(uids), SLICE_USERS):
        for index, uid in enumerate(uids[start : start + SLICE_USERS], start):
            if USER.fullmatch(uid) is None:
                raise Invalid(
                    "uid must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -, not . or ..",
                    f"/audience/uids/{index}",
                )
            distinct[uid] = None
        if len(distinct) > limits.AUDIENCE_USERS_MAX:
            raise TooLarge(f"uids must contain at most {limits.AUDIENCE_USERS_MAX} users")
        await asyncio.sleep(0)
    return list(distinct)
