# SPDX-License-Identifier: Apache-2.0
"""All ports of one open engine."""

from typing import Protocol

from tidings.ports.chats import Chats
from tidings.ports.inboxes import Copies, InboxSettings, Notifications
from tidings.ports.jobs import Jobs, JobsAside
from tidings.ports.log import Log
from tidings.ports.people import Tenants, Users
from tidings.ports.receipts import Receipts
from tidings.ports.revocations import Revocations
from tidings.ports.secrets import DataKeys, Deployment
from tidings.ports.sweeping import Sweeping


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
    def users(self) -> Users: ...
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
    def jobs_aside(self) -> JobsAside: ...
