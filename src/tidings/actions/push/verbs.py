# SPDX-License-Identifier: Apache-2.0
"""Test the push settings of a tenant; a typed bundle of the verbs for push."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, listing_owner
from tidings.actions.push.directory import PushDirectory
from tidings.actions.push.inbox_notices import NotifyInbox
from tidings.actions.push.noticing import Badges
from tidings.actions.push.registering import RegisterDevice, ShowPush
from tidings.actions.push.sending import SendPush, SentPush
from tidings.actions.push.settings import TenantPushSettings
from tidings.model.ids import USER, user_key
from tidings.model.refusals import UserNotFound
from tidings.ports.people import Tenants, UserStore
from tidings.ports.push import PushNotice, PushPreferences

TEST_TTL_SECONDS: Final = 60
_TEST: Final = PushNotice(
    kind="test",
    data={},
    collapse_key="test",
    title="Test",
    body="This notice tests the push settings.",
    ttl_seconds=TEST_TTL_SECONDS,
)


class TestPush(msgspec.Struct, frozen=True):
    """Send a notice to a user's devices, and return what the push services answered."""

    __test__ = False  # pytest must not take this for a test

    tenants: Tenants
    users: UserStore
    send: SendPush

    async def __call__(
        self, caller: Caller, tenant: str, user_id: str, device: str | None
    ) -> list[SentPush]:
        """Send the notice to all devices of a user, or to one.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            UserNotFound: The tenant has no such user.
        """
        await listing_owner(self.tenants, caller, tenant)
        if USER.fullmatch(user_id) is None or await self.users.missing([user_key(tenant, user_id)]):
            raise UserNotFound
        return await self.send(user_key(tenant, user_id), _TEST, device)


class PushVerbs(msgspec.Struct, frozen=True):
    """The verbs for push."""

    directory: PushDirectory
    register: RegisterDevice
    show: ShowPush
    settings: TenantPushSettings
    send: SendPush
    test: TestPush
    preferences: PushPreferences
    badges: Badges
    notify_inbox: NotifyInbox
    has_operator: bool
    """Whether the operator has a push service for all tenants."""
