# SPDX-License-Identifier: Apache-2.0
"""All ports of one open engine."""

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
    """Small steps, each short enough not to hold up a writer.

    An engine that deletes by itself what has expired, in its own time, has nothing to do here.
    """

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        """Remove the content of some expired messages, never their entries.

        Returns (chat, sequence) of those emptied; fewer than `limit` means that none is left that
        the engine would not see to by itself.
        """
        ...

    async def forget_keys(self, now: int, limit: int) -> int:
        """Remove some idempotency keys that no longer count, and codes, counts and sessions that
        are over; returns how many."""
        ...

    async def forget_notifications(self, now: int, limit: int) -> int:
        """Remove some notifications, copies and contents of announcements that nobody is shown.

        Returns about how many; fewer than `limit` means that what is left can wait.
        """
        ...


class Store(Protocol):
    """What chat and inbox need to keep, whichever engine keeps it."""

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
