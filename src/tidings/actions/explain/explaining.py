# SPDX-License-Identifier: Apache-2.0
"""Explain to a tenant what became of a message, a notification or a request."""

import msgspec

from tidings.actions.explain.messages import NEVER_ACCEPTED, ExplainMessage, replaced
from tidings.actions.explain.notifications import ExplainNotification
from tidings.actions.explain.refusals import KnownRequest, RefusalJournal
from tidings.actions.explain.tracing import Trace
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.users import existing
from tidings.model.explaining import DeliveryVerdict, Explanation, Moment
from tidings.model.ids import USER, locate, user_key
from tidings.model.refusals import Invalid, TenantNotFound, UserNotFound
from tidings.ports.people import Tenants, User, UserStore


class Explain(msgspec.Struct, frozen=True):
    """Explain what became of a message on its way to a user, for the tenant or root."""

    tenants: Tenants
    users: UserStore
    message: ExplainMessage
    notification: ExplainNotification
    refusals: RefusalJournal
    trace: Trace

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user: str,
        *,
        message_id: str | None = None,
        notification_id: str | None = None,
        inbox: str | None = None,
        request_id: str | None = None,
    ) -> Explanation:
        """Return the verdict and the timeline.

        A message may be named together with the request that sent it. The inbox of a notification
        is searched if it is not named.

        Raises:
            TenantNotFound: There is no such tenant, or the caller belongs to another one.
            Forbidden: The caller is a user.
            UserNotFound: The tenant has no such user.
            InboxNotFound: There is no such inbox.
            Invalid: None or too many of the ids are given, or one is malformed.
        """
        require_tenant(caller, tenant)
        if (notification_id is None) == (message_id is None and request_id is None):
            raise Invalid("either message_id, notification_id or request_id must be given", "")
        place = None if message_id is None else locate(message_id)
        if message_id is not None and place is None:
            raise Invalid("message_id: must be the id of a message", "/message_id")
        profile = await self._profile(tenant, user)
        if notification_id is not None:
            return await self.notification(notification_id, inbox, profile)
        known = None if request_id is None else self.refusals.find(request_id, tenant)
        if place is None:
            return await self._request(known, profile)
        explained = await self.message(*place, profile)
        if explained.verdict is NEVER_ACCEPTED and known is not None:
            return await self._request(known, profile)
        return explained

    async def _profile(self, tenant: str, user: str) -> User:
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        if USER.fullmatch(user) is None:
            raise UserNotFound
        return await existing(self.users, user_key(tenant, user))

    async def _request(self, known: KnownRequest | None, profile: User) -> Explanation:
        """Explain a request that made no message."""
        if known is None:
            text = "Nothing is kept about this request: it was not refused lately, or not here."
            return Explanation(DeliveryVerdict("unknown", text))
        if known.message_id is None:
            text = f"The server refused the request with {known.code}."
            where = f"{known.code}, {known.via}"
            refused = Moment("refused", known.at, where)
            return Explanation(DeliveryVerdict("never_accepted", text, known.at), (refused,))
        place = locate(known.message_id)
        assert place is not None
        text = f"The request repeated an earlier one; the message is {known.message_id}."
        repeated = Moment("repeated", known.at, known.via)
        explained = await self.message(*place, profile)
        return replaced(explained, DeliveryVerdict("repeat", text, known.at), repeated)
