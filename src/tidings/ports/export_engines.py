# SPDX-License-Identifier: Apache-2.0
"""Ports of the engines that export facts and import them."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from tidings.model.attachments import Upload
from tidings.model.ids import ChatId, UserKey
from tidings.ports.export_facts import Fact, Written


class ExportProgress(msgspec.Struct, frozen=True):
    """Progress of an import: the number of lines stored, and their SHA-256."""

    lines: int = 0
    sha256: str = ""


class Source(Protocol):
    """Reads all facts from an engine, for an export."""

    @property
    def epoch(self) -> str:
        """The deployment's epoch."""
        ...

    def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        """Yield every fact that is valid at `now`, in batches, in bounded memory.

        The facts of the chats up to `after` are left out.

        Every engine yields the same facts in the same order: kinds in the order of their
        declaration, each sorted by its own key. Each chat is followed by its members, its entries
        with the reactions to each, and its claimed idempotency keys. Each inbox is followed by its
        notifications, its log and its claimed idempotency keys. Each user's copies in an inbox are
        followed by the user's other read marks there.
        """
        ...

    async def changed(self) -> list[str]:
        """Return chats and inboxes that changed since they were read for the export."""
        ...


class Violation(msgspec.Struct, frozen=True):
    """A place where stored data breaks a rule."""

    where: str
    what: str


class Inspection(Source, Protocol):
    """Reads all facts from an engine that servers may be using, and compares its derived data."""

    def disagreements(self) -> AsyncIterator[Violation]:
        """Yield where data that the engine derives from the facts disagrees with them."""
        ...

    async def upload(self, owner: UserKey, attachment_id: str) -> Upload | None:
        """Return an upload as it is now, not as it was when the facts were read."""
        ...


class Target(Protocol):
    """Writes facts into an empty engine, for an import."""

    async def begin(self) -> ExportProgress:
        """Prepare for writing; return the progress of an import that was interrupted.

        From now on the store is marked as half imported, and no server opens it.

        Raises:
            SetupError: The store already contains other data.
        """
        ...

    async def write(self, facts: Sequence[Written], progress: ExportProgress) -> None:
        """Store these facts, then the progress. Both are durable when this returns.

        Storing the same facts again changes nothing. `ChatFact` writes nothing: the chat's row is
        written for its `WholeChat`, which follows the last fact of the chat. An engine that does
        not store the number of users ignores `UserCount`.
        """
        ...

    async def finish(self, epoch: str) -> None:
        """Complete the import under the epoch of the export; servers may now open the store."""
        ...
