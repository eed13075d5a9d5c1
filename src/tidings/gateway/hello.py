# SPDX-License-Identifier: Apache-2.0
"""What a device gets at hello: complete, or `resync`, or `gone`; never a part in silence."""

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
    """Whose connection it is, and of which device; or why it has to end."""
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
    """What a client whose token does not hold is told: after too many wrong ones not even that."""
    outcome = (
        None
        if context.limits is None
        else await context.limits.wrong_credentials(connection.address)
    )
    is_allowed = outcome is None or outcome.verdict.is_allowed
    return Close.NOT_AUTHENTICATED if is_allowed else Close.TOO_FAST


def welcome(user: UserKey, device: str, connection: str, epoch: str) -> bytes:
    """What a client has to know about its connection."""
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
    """Where each chat starts for a device."""

    gone: list[ChatId]
    """Chats the device holds and its user is not in."""
    resync: list[HeldChat]
    """Chats in which too much is missing, or what is held cannot be continued."""
    follow: list[tuple[HeldChat, int]]
    """Chats with the last entry the device has; all after it are sent, in this order."""


def plan_catch_up(
    held: Sequence[HeldChat], have: Mapping[str, int], *, is_same_epoch: bool
) -> CatchUpPlan:
    """Decide for each chat, newest activity first, within the bounds of one hello."""
    present = {row.chat_id for row in held}
    gone = [ChatId(chat) for chat in have if chat not in present]
    resync: list[HeldChat] = []
    follow: list[tuple[HeldChat, int]] = []
    budget = limits.CATCH_UP_HELLO_ENTRIES_MAX
    for row in held:
        start = _start(row, have, is_same_epoch=is_same_epoch)
        missing = None if start is None else row.head.sequence - start
        if start is None or missing is None or missing > budget:
            resync.append(row)
        else:
            follow.append((row, start))
            budget -= missing
    return CatchUpPlan(gone, resync, follow)


def _start(row: HeldChat, have: Mapping[str, int], *, is_same_epoch: bool) -> int | None:
    """The last entry the device has or need not have; None if it has to start over."""
    head = row.head.sequence
    if row.chat_id not in have:
        return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)
    held = have[row.chat_id]
    if not is_same_epoch or not 0 <= head - held <= limits.CATCH_UP_CHAT_ENTRIES_MAX:
        return None
    return held
