# SPDX-License-Identifier: Apache-2.0
"""The engines the contract suites run on, each for real."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from tests.harness.dynamo_tables import open_tables
from tidings.ports.chats import Chats
from tidings.ports.failpoints import Failpoints, NoFailpoints, Place
from tidings.ports.log import Log
from tidings.ports.people import Tenants, Users
from tidings.ports.receipts import Receipts
from tidings.ports.revocations import Revocations
from tidings.ports.secrets import DataKeys, Deployment
from tidings.ports.sweeping import Sweeping
from tidings.stores.sqlite.store import open_store


class Store(Protocol):
    """All ports of one open engine."""

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


class Engine(Protocol):
    """Opens the same data again and again, one after the other."""

    def open(self, failpoints: Failpoints = ...) -> AbstractAsyncContextManager[Store]: ...


class SqliteEngine:
    """The embedded store in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broke: list[Exception] = []

    def open(
        self,
        failpoints: Failpoints = NoFailpoints(),  # noqa: B008 - it has no state
    ) -> AbstractAsyncContextManager[Store]:
        return open_store(self.folder, failpoints=failpoints, broken=self.broke.append)


class DynamoEngine:
    """The store for scale on tables of its own, which somebody has made."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        self._endpoint = endpoint
        self._prefix = prefix

    def open(
        self,
        failpoints: Failpoints = NoFailpoints(),  # noqa: B008 - it has no state
    ) -> AbstractAsyncContextManager[Store]:
        return open_tables(self._endpoint, self._prefix, failpoints=failpoints)


class Died(Exception):
    """The process would be dead now."""


class DiesAt:
    """Failpoints that end it all at the first visit to one place."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def armed(self, place: Place) -> bool:
        return place == self._place

    def reach(self, place: Place) -> None:
        if place == self._place:
            raise Died(place)


_conforms: type[Failpoints] = DiesAt
