# SPDX-License-Identifier: Apache-2.0
"""The first word of a client, and the answer to it."""

from tidings.actions.identity import UserCaller
from tidings.gateway.desk import Desk
from tidings.gateway.line import Line
from tidings.model import limits
from tidings.model.ids import UserKey, user_id
from tidings.model.refusals import Unauthenticated, Unavailable
from tidings.ports.requesters import set_requester, unknown_requester, user_requester
from tidings.wire.codes import Close
from tidings.wire.frames import Hello, Welcome, encode


async def identify(desk: Desk, line: Line, hello: Hello) -> tuple[UserCaller, str] | Close:
    """Whose connection it is, and of which device; or why it has to end."""
    set_requester(unknown_requester(line.address))
    try:
        caller = await desk.authenticate(hello.token)
    except Unauthenticated:
        return await _not_authenticated(desk, line)
    except Unavailable:
        return Close.OVERLOADED
    if not isinstance(caller, UserCaller):
        return Close.FORBIDDEN
    set_requester(user_requester(caller.user))
    device = line.conversation.choose_device(caller.device, hello.device)
    return device if isinstance(device, Close) else (caller, device)


async def _not_authenticated(desk: Desk, line: Line) -> Close:
    """What a client whose token does not hold is told: after too many wrong ones not even that."""
    outcome = None if desk.limits is None else await desk.limits.wrong_credentials(line.address)
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
