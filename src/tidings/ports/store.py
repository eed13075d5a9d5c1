# SPDX-License-Identifier: Apache-2.0
"""The `Store` protocol, which combines all ports of one open engine, and the requester of a call.

The requester is the tenant and user on whose behalf the store is called. It is in a context
variable, so that no port needs a parameter for it. It is set where the caller becomes known, and
applies to everything that the same task does afterwards. Tasks that serve everybody have no
requester of their own: their calls are background work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple, Protocol

from tidings.model.ids import ChatId, UserKey, tenant_of
from tidings.ports.attachments import Uploads
from tidings.ports.audit import AuditLog
from tidings.ports.bus import DeadLetters, Jobs
from tidings.ports.chats import Chats, Deletions, InviteStore, Receipts
from tidings.ports.due import DueItems, ScheduledMessages
from tidings.ports.erasing import Ledger, PersonalData, TenantData
from tidings.ports.escalations import Escalations
from tidings.ports.inbox_states import InboxStates
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.log import Log
from tidings.ports.moderation import Blocks, Reports
from tidings.ports.people import Tenants, UserStore
from tidings.ports.preferences import PreferenceStore
from tidings.ports.push import PushClaims, PushStore, RecentChats
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.ports.search import SearchIndex
from tidings.ports.secrets import DataKeys, Deployment
from tidings.ports.sessions import Budgets, LoginCodes, Revocations, Sessions
from tidings.ports.tenant_jobs import ExportParts, TenantJobs
from tidings.ports.webhooks import TenantEventLog, WebhookQueue, Webhooks

CallClass = Literal["users", "credentials", "revocations"]
"""Class of a store call. Each class has its own connections to the store, so that users' requests,
however many, never block the lookup of credentials or the reading of revocations."""


class Requester(NamedTuple):
    """Tenant and user on whose behalf the store is called.

    When calls have to wait, tenants take turns, and so do the users of each tenant.
    """

    tenant: str
    """Empty for the deployment itself."""
    user: str = ""
    """Empty if the tenant itself calls, with a tenant key."""
    call_class: CallClass = "users"


BACKGROUND: Final = Requester("")
"""Requester of work that no user waits for, such as delivery and sweeping."""
OPERATOR: Final = Requester("", "operator")
REVOCATIONS: Final = Requester("", "", "revocations")

_current: Final = ContextVar("requester", default=BACKGROUND)

current_requester: Final = _current.get
"""Returns the requester of the current task; `BACKGROUND` unless it was set."""


def set_requester(requester: Requester) -> None:
    """Set the requester of all later store calls of this task."""
    _current.set(requester)


@contextmanager
def on_behalf_of(requester: Requester) -> Iterator[None]:
    """Set the requester of the store calls inside this context."""
    before = _current.set(requester)
    try:
        yield
    finally:
        _current.reset(before)


def user_requester(user: UserKey) -> Requester:
    """Return the requester for a user."""
    return Requester(tenant_of(user), user)


def unknown_requester(address: str | None) -> Requester:
    """Return the requester for a caller at this address whose credentials are not checked yet."""
    return Requester(address or "", "", "credentials")


class Sweeping(Protocol):
    """Removes expired data in steps that are short enough not to delay a writer.

    An engine that removes expired data by itself has nothing to do here.
    """

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        """Remove the content of some expired messages, never their entries.

        Returns the (chat, sequence) of each of these messages. If there are fewer than `limit`,
        none is left, except messages whose content the engine removes by itself.
        """
        ...

    async def forget_keys(self, now: int, limit: int) -> int:
        """Remove some expired idempotency keys, codes, counts and sessions; return how many."""
        ...

    async def forget_notifications(self, now: int, limit: int) -> int:
        """Remove some notifications, copies and contents of broadcasts that no user sees any more.

        Returns roughly how many were removed; fewer than `limit` means that the rest can wait.
        """
        ...


class Store(Protocol):
    """All ports of a storage engine, for chats and inboxes."""

    @property
    def log(self) -> Log: ...
    @property
    def chats(self) -> Chats: ...
    @property
    def receipts(self) -> Receipts: ...
    @property
    def tenants(self) -> Tenants: ...
    @property
    def users(self) -> UserStore: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def login_codes(self) -> LoginCodes: ...
    @property
    def budgets(self) -> Budgets: ...
    @property
    def blocks(self) -> Blocks: ...
    @property
    def reports(self) -> Reports: ...
    @property
    def push(self) -> PushStore: ...
    @property
    def push_claims(self) -> PushClaims: ...
    @property
    def recent_chats(self) -> RecentChats: ...
    @property
    def invites(self) -> InviteStore: ...
    @property
    def data_keys(self) -> DataKeys: ...
    @property
    def deployment(self) -> Deployment: ...
    @property
    def sweeping(self) -> Sweeping: ...
    @property
    def revocations(self) -> Revocations: ...
    @property
    def inbox_settings(self) -> InboxSettings: ...
    @property
    def notifications(self) -> Notifications: ...
    @property
    def copies(self) -> Copies: ...
    @property
    def preferences(self) -> PreferenceStore: ...
    @property
    def inbox_states(self) -> InboxStates: ...
    @property
    def scheduled_notifications(self) -> ScheduledNotifications: ...
    @property
    def escalations(self) -> Escalations: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def dead_letters(self) -> DeadLetters: ...
    @property
    def deletions(self) -> Deletions: ...
    @property
    def audit(self) -> AuditLog: ...
    @property
    def tenant_jobs(self) -> TenantJobs: ...
    @property
    def export_parts(self) -> ExportParts: ...
    @property
    def personal_data(self) -> PersonalData: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def tenant_data(self) -> TenantData: ...
    @property
    def search_index(self) -> SearchIndex: ...
    @property
    def uploads(self) -> Uploads: ...
    @property
    def due(self) -> DueItems: ...
    @property
    def scheduled(self) -> ScheduledMessages: ...
    @property
    def webhooks(self) -> Webhooks: ...
    @property
    def webhook_queue(self) -> WebhookQueue: ...
    @property
    def tenant_events(self) -> TenantEventLog: ...
