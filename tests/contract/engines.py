# SPDX-License-Identifier: Apache-2.0
"""The engines the contract suites run on, each for real."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from tests.support.dynamo_tables import open_tables
from tidings.ports.store import Store as Store
from tidings.ports.world import Failpoints, NoFailpoints
from tidings.stores.sqlite.store import open_store


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
