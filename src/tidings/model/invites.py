# SPDX-License-Identifier: Apache-2.0
"""Invitations: where a tenant wants it, a stranger's group is a request until it is accepted."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid
from tidings.model.roles import Role

Invites = Literal["open", "ask"]
"""Whether strangers add a user to groups at once, or ask first."""

Asked = Literal["new", "again", "refused"]
"""A user is asked, was asked before and has not answered yet, or cannot be asked now."""

_SAID: Final = "invites"


class Invite(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks a user to join a group."""

    user_id: UserKey
    chat_id: ChatId
    inviter: UserKey
    role: Role
    name: str
    """Of the group, when it was asked."""
    invited_at: int
    expires_at: int
    """When it is forgotten: if it waits, after some weeks; if it was declined, after some days."""
    declined_at: int | None = None
    """None: it waits for an answer."""


def invites_in(settings: Mapping[str, object]) -> Invites:
    """What a tenant's settings say about invitations; open unless they say otherwise.

    Raises:
        Invalid: `invites` is there and makes no sense.
    """
    try:
        said: Invites = msgspec.convert(settings.get(_SAID, "open"), Invites)
    except msgspec.ValidationError as error:
        raise Invalid(f"{_SAID}: {error}", f"/{_SAID}") from None
    return said


def asking(invite: Invite, kept: Sequence[Invite]) -> Asked:
    """What comes of asking a user of whom these invitations are kept, waiting or declined.

    One stranger cannot take all the room there is for others. What was declined takes none of the
    user's room, but goes on counting for who asked.
    """
    others = [one for one in kept if one.chat_id != invite.chat_id]
    waiting = sum(one.declined_at is None for one in others)
    same = sum(one.inviter == invite.inviter for one in others)
    earlier = next((one for one in kept if one.chat_id == invite.chat_id), None)
    if earlier is not None and earlier.declined_at is not None:
        return "refused"
    if waiting >= limits.USER_INVITES_MAX or same >= limits.INVITER_INVITES_MAX:
        return "refused"
    return "new" if earlier is None else "again"


class LoginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`login` in a tenant's settings. Both are off until the tenant switches them on."""

    phone: bool = False
    """Whether users of the tenant log in by phone at all."""
    register: bool = False
    """Whether a number that is nobody's becomes a new user."""


def login_settings_in(settings: Mapping[str, object]) -> LoginSettings:
    """The part of a tenant's settings that is about logging in.

    Raises:
        Invalid: `login` is there and makes no sense.
    """
    try:
        return msgspec.convert(settings.get("login", {}), LoginSettings)
    except msgspec.ValidationError as error:
        raise Invalid(f"login: {error}", "/login") from None
