# SPDX-License-Identifier: Apache-2.0
"""Cost of requests, in tokens of the rate-limit buckets.

A plain request costs one token. A request with a multiple of that work costs about as many tokens,
so that a bucket bounds the work that a user causes and not only the number of requests.
"""

from tidings.model import limits


def page(rows: int) -> int:
    """Return the cost of a page of a log, of history or of an inbox."""
    return _portions(rows, limits.PAGE_ROWS_PER_TOKEN)


def chat_list(rows: int) -> int:
    """Return the cost of a page of the chat list, whose rows have preview, members and unread."""
    return _portions(rows, limits.CHAT_LIST_ROWS_PER_TOKEN)


def group(members: int) -> int:
    """Return the cost of a new chat: each member takes several writes."""
    return _portions(members, limits.GROUP_MEMBERS_PER_TOKEN)


def look_up(names: int) -> int:
    """Return the cost of a request that looks up or marks several things one by one."""
    return _portions(names, limits.LOOK_UPS_PER_TOKEN)


def leave(chats: int) -> int:
    """Return the cost of leaving several chats: each is the work of a plain request."""
    return max(1, chats)


def post(users: int | None) -> int:
    """Return the cost of a notification: one token per delivery job; None means a broadcast."""
    return limits.BROADCAST_TOKENS if users is None else _portions(users, limits.JOB_USERS_MAX)


def _portions(count: int, size: int) -> int:
    return max(1, -(-count // size))
