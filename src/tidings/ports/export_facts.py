# SPDX-License-Identifier: Apache-2.0
"""All facts of a deployment, as they travel from one engine to another.

The fields and their order are a format that files are written in: what is released here is never
changed, only followed by another version. The second one added the inbox, the third sessions, a
tenant's own keys, and what users and tenants may not do, the fourth the audit trail and a keyed
digest at the end. A deleted chat travels as what is left of one, whether its job is done or not:
empty entries, of which `deleted` is the last. Nothing is opened on the way: content stays in its
boxes, keys stay wrapped. Caches, which an engine makes of the facts, do not travel, and neither do
codes that were sent and counts of what was spent: they are over soon.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

import msgspec

from tidings.model.audit import Act, Actor, Outcome
from tidings.model.chats import ChatType
from tidings.model.deletions import Deletion
from tidings.model.entries import Entry, Head, Kind, Person
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Role
from tidings.ports.export_inbox_facts import FactBase, InboxFacts
from tidings.ports.sessions import RevokedKind


class ExportStart(FactBase, frozen=True, kw_only=True, tag="tidings-export"):
    """The first line."""

    version: int
    epoch: str


class SecretFact(FactBase, frozen=True, kw_only=True, tag="secret"):
    """A secret of the deployment, sealed by a master key."""

    name: str
    master_key_id: str
    sealed: bytes


class TenantFact(FactBase, frozen=True, kw_only=True, tag="tenant"):
    """A tenant."""

    tenant: str
    name: str | None = None
    created_at: int
    suspended_at: int | None = None
    quota_users: int | None = None
    quota_chats_per_day: int | None = None
    quota_messages_per_day: int | None = None


class TenantKeyFact(FactBase, frozen=True, kw_only=True, tag="tenant_key"):
    """A tenant key's digest."""

    key_id: str
    tenant: str
    digest: bytes
    created_at: int
    revoked_at: int | None = None


class SigningKeyFact(FactBase, frozen=True, kw_only=True, tag="signing_key"):
    """What signs a tenant's tokens, sealed."""

    tenant: str
    key_id: str
    public: bytes
    sealed_private: bytes
    master_key_id: str
    created_at: int


class IssuerFact(FactBase, frozen=True, kw_only=True, tag="token_issuer"):
    """Public keys with which a tenant signs tokens itself."""

    tenant: str
    issuer: str | None = None
    document: bytes
    updated_at: int


class RevocationFact(FactBase, frozen=True, kw_only=True, tag="revocation"):
    """One place of the feed of revocations."""

    place: int
    kind: RevokedKind
    subject: str
    at: int


class UserFact(FactBase, frozen=True, kw_only=True, tag="user"):
    """A user. A phone number is the user's alone: of two with the same one within a tenant, which
    older files may hold, the first keeps it."""

    user_id: UserKey
    display_name: str | None = None
    phone_number: str | None = None
    created_at: int
    updated_at: int
    last_seen_at: int | None = None
    deactivated_at: int | None = None
    revoked_at: int | None = None


class SessionFact(FactBase, frozen=True, kw_only=True, tag="session"):
    """A session that has not ended."""

    session_id: str
    user_id: UserKey
    device: str
    refresh_digest: bytes
    previous_digest: bytes | None = None
    sealed_refresh: bytes | None = None
    created_at: int
    rotated_at: int
    expires_at: int


class DataKeyFact(FactBase, frozen=True, kw_only=True, tag="data_key"):
    """An author's last data key, wrapped; or only its generation, if it was destroyed."""

    author: UserKey
    generation: int
    wrapped: bytes | None = None
    master_key_id: str | None = None


class RequestKeyFact(FactBase, frozen=True, kw_only=True, tag="request_key"):
    """A request to create a chat that still counts."""

    user_id: UserKey
    key: str
    digest: bytes
    chat_id: ChatId
    expires_at: int
    is_finished: bool = True
    """False: not all people of the chat are in it yet; a repeat of the request adds them."""


class InviteFact(FactBase, frozen=True, kw_only=True, tag="invite"):
    """An invitation that waits for an answer, or was declined not long ago."""

    user_id: UserKey
    chat_id: ChatId
    inviter: UserKey
    role: Role
    name: str
    invited_at: int
    expires_at: int
    declined_at: int | None = None


class ChatFact(FactBase, frozen=True, kw_only=True, tag="chat"):
    """A chat. Its members, entries, reactions and claimed keys follow, and then the next chat."""

    chat_id: ChatId
    tenant: str
    type: ChatType
    name: str | None = None
    creator: UserKey
    created_at: int


class MemberFact(FactBase, frozen=True, kw_only=True, tag="member"):
    """A membership with its receipt: the one exists just as long as the other."""

    chat_id: ChatId
    user_id: UserKey
    role: Role
    joined_at: int
    joined: int
    muted_until: int | None = None
    delivered: int
    read: int
    read_number: int
    is_own: bool = False
    """Whether the user made the chat or has written in it."""


class EntryFact(FactBase, frozen=True, kw_only=True, tag="entry"):
    """An entry of the log, as it is now."""

    chat_id: ChatId
    sequence: int
    kind: Kind
    sender: UserKey
    created_at: int
    number: int
    last_message: int
    active_at: int
    mark: str
    client_message_id: str | None = None
    content_type: str | None = None
    box: bytes | None = None
    box_key: int = 0
    expires_at: int | None = None
    edited_at: int | None = None
    redacted: bool = False
    reactions: dict[str, int] | None = None
    target: int | None = None
    emoji: str | None = None
    people: tuple[Person, ...] = ()
    name: str | None = None


class ReactionFact(FactBase, frozen=True, kw_only=True, tag="reaction"):
    """Who reacted to the entry before it."""

    chat_id: ChatId
    sequence: int
    emoji: str
    user_id: UserKey
    created_at: int


class SendKeyFact(FactBase, frozen=True, kw_only=True, tag="send_key"):
    """A key claimed by a send that still counts."""

    chat_id: ChatId
    sender: UserKey
    client_message_id: str
    hint: int
    digest: bytes
    expires_at: int


class AuditFact(FactBase, frozen=True, kw_only=True, tag="audit"):
    """An entry of the audit trail."""

    at: int
    entry_id: str
    tenant: str
    actor: Actor
    actor_id: str | None = None
    action: str
    fields: tuple[str, ...] = ()
    acts: tuple[Act, ...]
    outcome: Outcome | None = None
    code: str | None = None


class ExportEnd(FactBase, frozen=True, kw_only=True, tag="end"):
    """The last line: how many facts of each kind there are, and the SHA-256 of all lines before,
    also keyed with what a master key brings forth."""

    counts: dict[str, int]
    sha256: str
    master_key_id: str | None = None
    mac: str | None = None


ChatPart = MemberFact | EntryFact | ReactionFact | SendKeyFact
Fact = (
    SecretFact
    | TenantFact
    | TenantKeyFact
    | SigningKeyFact
    | IssuerFact
    | RevocationFact
    | UserFact
    | SessionFact
    | DataKeyFact
    | RequestKeyFact
    | InviteFact
    | ChatFact
    | ChatPart
    | InboxFacts
    | AuditFact
)
Line = ExportStart | Fact | ExportEnd

_ENTRY_FIELDS: Final = EntryFact.__struct_fields__


def entry_fact(entry: Entry, now: int) -> EntryFact:
    """An entry as it travels. Content whose time is over stays behind, swept or not."""
    values = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    if entry.box is None or entry.expired(now):
        values |= {"box": None, "box_key": 0}
    # Engines keep the counts in different orders, and the order means nothing.
    values["reactions"] = dict(sorted(entry.reactions.items())) if entry.reactions else None
    return EntryFact(**values)


def to_entry(fact: EntryFact) -> Entry:
    """The entry of a fact."""
    return Entry(**{name: getattr(fact, name) for name in _ENTRY_FIELDS})


class WholeChat(msgspec.Struct, frozen=True, kw_only=True):
    """What only the end of a chat's part of an export can tell."""

    chat: ChatFact
    head: Head
    deletion: Deletion | None = None
    """If the chat is deleted."""
    members: tuple[UserKey, ...]
    """Longest-standing first."""


class UserCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many users a tenant has, which only the last of them can tell."""

    tenant: str
    users: int


Written = Fact | WholeChat | UserCount
"""What an engine is given to keep: facts, and what they come to."""


class ExportProgress(msgspec.Struct, frozen=True):
    """How far an import has come: so many lines are kept, and this is their SHA-256."""

    lines: int = 0
    sha256: str = ""


class Source(Protocol):
    """An engine that is exported."""

    @property
    def epoch(self) -> str:
        """The deployment's epoch."""
        ...

    def facts(self, now: int) -> AsyncIterator[Sequence[Fact]]:
        """Every fact that counts at `now`, some at a time, in bounded memory.

        The order is the same for the same facts, whichever engine holds them: kinds in the order
        in which they are declared, each sorted by its own key; of every chat its members, its
        entries with the reactions to each, and its claimed keys; of every inbox its notifications,
        its log and its claimed keys; of every user and inbox the copies and what else was read.
        """
        ...

    async def changed(self) -> list[str]:
        """Chats and inboxes that are not any more what was read of them: somebody wrote."""
        ...


class Target(Protocol):
    """An engine that is imported into."""

    async def begin(self) -> ExportProgress:
        """Be ready to write; returns how far an import that was stopped has come.

        From now on the store counts as half imported, and no server opens it.

        Raises:
            StoreRefused: The store holds anything else already.
        """
        ...

    async def write(self, facts: Sequence[Written], progress: ExportProgress) -> None:
        """Keep these facts, and then that it has come this far; durable when it returns.

        The same facts again change nothing. What a chat is, is kept with `WholeChat`; who keeps a
        count of users in any case passes over `UserCount`.
        """
        ...

    async def finish(self, epoch: str) -> None:
        """The import is complete: servers may open the store, under the epoch it had before."""
        ...
