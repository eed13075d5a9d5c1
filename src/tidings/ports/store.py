# SPDX-License-Identifier: Apache-2.0
"""The ports of one open engine together, and the port for its sweeper."""

from typing import Protocol

from tidings.model.ids import ChatId
from tidings.ports.chats import Chats, Deletions, InviteStore
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.jobs import DeadLetters, Jobs
from tidings.ports.log import Log
from tidings.ports.logins import Budgets, LoginCodes
from tidings.ports.people import AuditLog, Tenants, UserStore
from tidings.ports.receipts import Receipts
from tidings.ports.secrets import DataKeys, Deployment
from tidings.ports.sessions import Revocations, Sessions


class Sweeping(Protocol):
    """Removal of expired data in steps short enough not to delay a writer.

    An engine that removes expired data by itself has nothing to do here.
    """

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        """Remove the content of some expired messages, never their entries.

        Returns their (chat, sequence); fewer than `limit` means that nothing is left except what
        the engine removes by itself.
        """
        ...

    async def forget_keys(self, now: int, limit: int) -> int:
        """Remove some expired idempotency keys, codes, counts and sessions; return how many."""
        ...

    async def forget_notifications(self, now: int, limit: int) -> int:
        """Remove some notifications, copies and contents of broadcasts that no user sees any more.

        Returns about how many; fewer than `limit` means that the rest can wait.
        """
        ...


class Store(Protocol):
    """Everything that chat and inbox store, with any engine."""

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
    def jobs(self) -> Jobs: ...
    @property
    def jobs_aside(self) -> DeadLetters: ...
    @property
    def deletions(self) -> Deletions: ...
    @property
    def audit(self) -> AuditLog: ...
