# SPDX-License-Identifier: Apache-2.0
"""What requests cost, in tokens of the buckets they are taken from.

A plain request costs one token. What takes a multiple of a plain request's work costs about as
many, so that a bucket bounds the work of its user and not only the number of requests.
"""

from tidings.model import limits


def page(rows: int) -> int:
    """Part of a log, of history or of an inbox: by how many rows are asked for."""
    return _portions(rows, limits.PAGE_ROWS_PER_TOKEN)


def chat_list(rows: int) -> int:
    """Part of the chat list: each row has a preview, its members and what is unread."""
    return _portions(rows, limits.CHAT_LIST_ROWS_PER_TOKEN)


def group(members: int) -> int:
    """A new chat: each member is written several times over."""
    return _portions(members, limits.GROUP_MEMBERS_PER_TOKEN)


def look_up(names: int) -> int:
    """Several things at once that are looked up, or marked, one by one."""
    return _portions(names, limits.LOOK_UPS_PER_TOKEN)


def leave(chats: int) -> int:
    """Several chats to be left: each is the work of a plain request."""
    return max(1, chats)


def post(users: int | None) -> int:
    """A notification for so many users, by the jobs it makes; None: for everyone."""
    return limits.BROADCAST_TOKENS if users is None else _portions(users, limits.JOB_USERS_MAX)


def _portions(count: int, size: int) -> int:
    return max(1, -(-count // size))
