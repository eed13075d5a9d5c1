# SPDX-License-Identifier: Apache-2.0
"""Unsubscribe from e-mails with the link in one of them, without a login."""

import msgspec

from tidings.actions.inbox.composing import EmailSubscription, UnsubscribeLinks
from tidings.actions.inbox.preferences import OwnPreferences
from tidings.model.ids import tenant_of
from tidings.model.outgoing_refusals import UnsubscribeLinkUnknown
from tidings.model.refusals import CursorInvalid, InboxNotFound
from tidings.ports.people import Tenants, UserStore


class Unsubscribe(msgspec.Struct, frozen=True):
    """Ends the e-mails that a link is about. Whoever has the link learns nothing about the user:
    the answer is the same if the user, the inbox or the tenant does not exist any more."""

    links: UnsubscribeLinks
    preferences: OwnPreferences
    users: UserStore
    tenants: Tenants

    def check(self, token: str) -> EmailSubscription:
        """Return what a link is about.

        Raises:
            UnsubscribeLinkUnknown: This deployment did not make the link.
        """
        try:
            return self.links.read(token)
        except CursorInvalid:
            raise UnsubscribeLinkUnknown from None

    async def __call__(self, token: str) -> None:
        """End the e-mails that a link is about. A repeat changes nothing.

        Raises:
            UnsubscribeLinkUnknown: This deployment did not make the link.
            PreferencesRequired: The tenant has declared the category as required since.
        """
        about = self.check(token)
        tenant = await self.tenants.get(tenant_of(about.user))
        user = await self.users.get(about.user)
        if tenant is None or tenant.deleted_at is not None:
            return
        if user is None or user.deleted_at is not None:
            return  # nothing may be stored for a deleted user
        try:
            await self.preferences.unsubscribe(about.user, about.inbox, about.category)
        except InboxNotFound:
            return
