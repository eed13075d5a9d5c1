# SPDX-License-Identifier: Apache-2.0
"""Whether a user may be in one more chat.

A user's own chats are those the user made or has written in; the rest are chats of others, into
which anybody may have put the user. The two are counted apart, so that others cannot use up what
the user needs for chats of one's own. Direct chats have a reserve that groups cannot take: the
first message of a friend arrives even if strangers have put the user into as many groups as one
may be in.
"""

from typing import Literal

from tidings.model import limits
from tidings.model.ids import UserKey

Way = Literal["own", "group", "direct"]
"""How a user comes into a chat: by the user's own act, or into a group or direct chat of others."""


def way_into(user: UserKey, by: UserKey, *, is_direct: bool = False) -> Way:
    """The way of a user whom somebody, perhaps the user, brings into a chat."""
    if user == by:
        return "own"
    return "direct" if is_direct else "group"


def surely_has_room(total: int) -> bool:
    """Whether somebody in so many chats may be in one more, whosever they are."""
    return total < min(limits.USER_CHATS_MAX, limits.OTHERS_CHATS_MAX)


def has_room(way: Way, total: int, own: int) -> bool:
    """Whether somebody in so many chats, so many of them one's own, may come into one more."""
    if way == "own":
        return own < limits.USER_CHATS_MAX
    most = limits.OTHERS_CHATS_MAX if way == "group" else limits.OTHERS_DIRECT_CHATS_MAX
    # A user who goes on writing in chats of others makes them one's own without asking anybody.
    return total - own < most and total < limits.USER_CHATS_MAX + limits.OTHERS_DIRECT_CHATS_MAX
