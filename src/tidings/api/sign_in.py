# SPDX-License-Identifier: Apache-2.0
"""Operations for signing in at the web app: the ways to sign in, and tokens for demo users.

They are not in the OpenAPI document, because only the web app of the same server uses them, and
both may change together. Demo users exist only with `tidings serve --demo`, and only for browsers
on the same machine.
"""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Root
from tidings.actions.identity.tenants import MakeToken
from tidings.api.fields import UserId
from tidings.api.operations import Operation, operation
from tidings.api.requests import Body
from tidings.api.tenants import TokenRecord
from tidings.model.ids import rfc3339
from tidings.model.refusals import LimitReached, NotFound, UserDeactivated, UserDeleted

TAG: Final = "Web app"
TOKEN_SECONDS: Final = 900


class DemoPerson(msgspec.Struct, frozen=True):
    """A demo user, as whom anybody on this machine can sign in."""

    user_id: str
    display_name: str


class Demo(msgspec.Struct, frozen=True):
    """The demo users, and their tenant."""

    tenant: str
    people: tuple[DemoPerson, ...]
    make_token: MakeToken


class SignIn(msgspec.Struct, frozen=True):
    """The ways to sign in, besides with a token."""

    has_phone_login: bool = False
    """Whether this server can send login codes.

    It does not show whether a tenant allows phone login.
    """
    demo: Demo | None = None


class WaysToSignIn(msgspec.Struct):
    """The ways to sign in at this server. `demo` is empty for clients on other machines."""

    phone: bool
    demo: tuple[DemoPerson, ...]


class DemoTokenRequest(Body, frozen=True):
    """The demo user as whom to sign in."""

    user_id: UserId


@operation("GET", "/app.json", tag=TAG, summary="List the ways to sign in", key=None)
async def list_ways_to_sign_in(is_local: bool, sign_in: SignIn) -> WaysToSignIn:
    """Return the ways to sign in at the web app."""
    people = sign_in.demo.people if sign_in.demo is not None and is_local else ()
    return WaysToSignIn(sign_in.has_phone_login, people)


@operation(
    "POST",
    "/demo/tokens",
    tag=TAG,
    summary="Create a token for a demo user",
    key=None,
    statuses=(201,),
    refusals=(NotFound, LimitReached, UserDeactivated, UserDeleted),
)
async def make_demo_token(data: DemoTokenRequest, is_local: bool, sign_in: SignIn) -> TokenRecord:
    """Create a short-lived token for one of the demo users."""
    demo = sign_in.demo
    assert demo is not None, "without a demo this operation does not exist"
    if not is_local or data.user_id not in {one.user_id for one in demo.people}:
        raise NotFound
    made = await demo.make_token(
        Root(), demo.tenant, data.user_id, device=None, expires_in=TOKEN_SECONDS
    )
    return TokenRecord(made.token, rfc3339(made.expires_at))


def operations(sign_in: SignIn) -> tuple[Operation, ...]:
    """Return the operations of a server with these ways to sign in."""
    if sign_in.demo is None:
        return (list_ways_to_sign_in,)
    return list_ways_to_sign_in, make_demo_token
