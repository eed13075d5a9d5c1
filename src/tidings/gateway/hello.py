# SPDX-License-Identifier: Apache-2.0
"""Hello: identifies the user, and plans the catch-up of each chat: all, `resync` or `gone`.

A chat is never caught up in part without saying so.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import GatewayContext
from tidings.model import limits
from tidings.model.chats import HeldChat
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import Unauthenticated, Unavailable
from tidings.ports.requesters import set_requester, unknown_requester, user_requester
from tidings.wire.codes import Close
from tidings.wire.frames import Hello, Welcome, encode


async def identify(
    context: GatewayContext, connection: ClientConnection, hello: Hello
) -> tuple[UserCaller, str] | Close:
    """Return the caller and the device of a connection, or the code to close it with."""
    set_requester(unknown_requester(connection.address))
    try:
        caller = await context.authenticate(hello.token)
    except Unauthenticated:
        return await _not_authenticated(context, connection)
    except Unavailable:
        return Close.OVERLOADED
    if not isinstance(caller, UserCaller):
        return Close.FORBIDDEN
    set_requester(user_requester(caller.user))
    device = connection.conversation.choose_device(caller.device, hello.device)
    return device if isinstance(device, Close) else (caller, device)


async def _not_authenticated(context: GatewayContext, connection: ClientConnection) -> Close:
    """Return the close code for an invalid token; after too many of them, `TOO_FAST`."""
    outcome = (
        None
        if context.limits is None
        else await context.limits.wrong_credentials(connection.address)
    )
    is_allowed = outcome is None or outcome.verdict.is_allowed
    return Close.NOT_AUTHENTICATED if is_allowed else Close.TOO_FAST


def welcome(user: UserKey, device: str, connection: str, epoch: str) -> bytes:
    """Return the frame that opens a connection."""
    return encode(
        Welcome(
            user=user_id(user),
            device=device,
            connection=connection,
            epoch=epoch,
            heartbeat_ms=limits.HEARTBEAT_MS,
            window=limits.WINDOW_ENTRIES,
        )
    )


class CatchUpPlan(msgspec.Struct, frozen=True):
    """How each chat of a device catches up."""

    gone: list[ChatId]
    """Chats that the device has but its user is not a member of."""
    resync: list[HeldChat]
    """Chats with too many missing entries, or with a copy that cannot be continued."""
    follow: list[tuple[HeldChat, int]]
    """Chats with the last entry that the device has; all later ones are sent, in this order."""


def plan_catch_up(
    chats: Sequence[HeldChat], have: Mapping[str, int], *, is_same_epoch: bool
) -> CatchUpPlan:
    """Decide how each chat catches up, newest activity first, within the limits of one hello."""
    present = {row.chat_id for row in chats}
    gone = [ChatId(chat) for chat in have if chat not in present]
    resync: list[HeldChat] = []
    follow: list[tuple[HeldChat, int]] = []
    budget = limits.CATCH_UP_HELLO_ENTRIES_MAX
    for row in chats:
        start = _start(row, have, is_same_epoch=is_same_epoch)
        missing = None if start is None else row.head.sequence - start
        if start is None or missing is None or missing > budget:
            resync.append(row)
        else:
            follow.append((row, start))
            budget -= missing
    return CatchUpPlan(gone, resync, follow)


def _start(row: HeldChat, have: Mapping[str, int], *, is_same_epoch: bool) -> int | None:
    """Return the last entry the device has or does not need; None if it has to start over."""
    head = row.head.sequence
    if row.chat_id not in have:
        return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)
    last = have[row.chat_id]
    if not is_same_epoch or not 0 <= head - last <= limits.CATCH_UP_CHAT_ENTRIES_MAX:
        return None
    return last
