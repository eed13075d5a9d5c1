# SPDX-License-Identifier: Apache-2.0
"""The file format of an export.

An export consists of facts, one per line. The fields and their order are the format. A released
version never changes, so any change needs a new version. Version 2 added the inbox. Version 3 added
sessions, a tenant's own public keys, suspension and quotas of tenants, and deactivation of users.
Version 4 added the audit trail and a MAC at the end. Version 5 added the time of a chat's last
change, settings of chats, blocks, reports, jobs of tenants, avatar, metadata, e-mail, verified
number, hiding and bans of users, the ledger of erasures, replies, mentions, pins, silent messages,
messages that a tenant posted, mutes except for mentions, scheduled messages, files, push,
webhook endpoints, and states and collapse keys of notifications.

Nothing is decrypted: content stays encrypted, and keys stay wrapped. A deleted chat is exported as
empty entries, the last of which is `deleted`, whether its deletion job is finished or not. Data
that an engine derives from the facts is not exported. Login codes and budgets are not exported
either, because they are short-lived.
"""

from typing import Final

import msgspec

from tidings.model.chat_settings import ChatSettings
from tidings.model.chats import ChatType
from tidings.model.entries import Deletion, Entry, Head, Kind, Person, Poster
from tidings.model.ids import ChatId, UserKey
from tidings.model.reports import ReportAction, ReportReason, ReportState
from tidings.model.roles import Role
from tidings.ports.audit import Act, Actor, Outcome
from tidings.ports.export_feature_facts import (
    ErasureFact,
    FileFacts,
    PushFacts,
    TenantJobFact,
    WebhookFact,
)
from tidings.ports.export_inbox_facts import FactBase, InboxFacts
from tidings.ports.sessions import RevokedKind


class ExportStart(FactBase, frozen=True, kw_only=True, tag="tidings-export"):
    """The first line of an export."""

    version: int
    epoch: str


class SecretFact(FactBase, frozen=True, kw_only=True, tag="secret"):
    """A secret of the deployment, encrypted with a master key."""

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
    quota_attachment_bytes_per_day: int | None = None
    deleted_at: int | None = None


class TenantKeyFact(FactBase, frozen=True, kw_only=True, tag="tenant_key"):
    """A tenant key, of which only a digest is stored."""

    key_id: str
    tenant: str
    digest: bytes
    created_at: int
    revoked_at: int | None = None


class SigningKeyFact(FactBase, frozen=True, kw_only=True, tag="signing_key"):
    """A tenant's signing key, with its private half encrypted."""

    tenant: str
    key_id: str
    public: bytes
    sealed_private: bytes
    master_key_id: str
    created_at: int


class IssuerFact(FactBase, frozen=True, kw_only=True, tag="token_issuer"):
    """Public keys for the tokens that a tenant signs itself."""

    tenant: str
    issuer: str | None = None
    document: bytes
    updated_at: int


class RevocationFact(FactBase, frozen=True, kw_only=True, tag="revocation"):
    """One revocation in the revocation feed."""

    place: int
    kind: RevokedKind
    subject: str
    at: int


class UserFact(FactBase, frozen=True, kw_only=True, tag="user"):
    """A user.

    A phone number is unique within a tenant. If an older file has two users with the same number,
    only the first of them keeps it.
    """

    user_id: UserKey
    display_name: str | None = None
    phone_number: str | None = None
    created_at: int
    updated_at: int
    last_seen_at: int | None = None
    deactivated_at: int | None = None
    revoked_at: int | None = None
    avatar_url: str | None = None
    metadata: str | None = None
    email: str | None = None
    phone_verified_at: int | None = None
    hidden_at: int | None = None
    deleted_at: int | None = None
    banned_until: int | None = None


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
    """An author's last data key, wrapped by a master key. If the data key was destroyed, only its
    generation is exported."""

    author: UserKey
    generation: int
    wrapped: bytes | None = None
    master_key_id: str | None = None


class RequestKeyFact(FactBase, frozen=True, kw_only=True, tag="request_key"):
    """An unexpired idempotency key of a request to create a chat."""

    user_id: UserKey
    key: str
    digest: bytes
    chat_id: ChatId
    expires_at: int
    is_finished: bool = True
    """False if members are still missing; a repeat of the request adds them."""


class BlockFact(FactBase, frozen=True, kw_only=True, tag="block"):
    """One user blocks another; see `model.blocks`."""

    user_id: UserKey
    blocked: UserKey
    created_at: int
    chat_id: ChatId | None = None
    delivered: int = 0
    read: int = 0


class ReportFact(FactBase, frozen=True, kw_only=True, tag="report"):
    """A report that has not expired; see `model.reports`."""

    report_id: str
    tenant: str
    state: ReportState
    reporter: UserKey
    reported: UserKey
    reason: ReportReason
    created_at: int
    expires_at: int
    chat_id: ChatId | None = None
    sequence: int = 0
    client_message_id: str | None = None
    content_type: str | None = None
    sent_at: int = 0
    box: bytes | None = None
    box_key: int = 0
    comment: bytes | None = None
    comment_key: int = 0
    note: bytes | None = None
    note_key: int = 0
    action: ReportAction | None = None
    updated_at: int | None = None
    files: bytes | None = None


class InviteFact(FactBase, frozen=True, kw_only=True, tag="invite"):
    """An invitation that is pending, or was declined not long ago."""

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
    updated_at: int | None = None
    frozen: bool = False
    slow_mode_seconds: int = 0


class MemberFact(FactBase, frozen=True, kw_only=True, tag="member"):
    """A membership with its receipt, whose times are packed as in `model.receipt_times`."""

    chat_id: ChatId
    user_id: UserKey
    role: Role
    joined_at: int
    joined: int
    muted_until: int | None = None
    except_mentions: bool = False
    delivered: int
    read: int
    read_number: int
    is_own: bool = False
    """Whether the user created the chat or has written in it."""
    unread_from: int = 0
    unread_number: int = 0
    hidden_number: int = -1
    delivered_times: bytes = b""
    read_times: bytes = b""


class EntryFact(FactBase, frozen=True, kw_only=True, tag="entry"):
    """An entry of the log in its current state."""

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
    reply_to: int | None = None
    reply_count: int = 0
    mentions: tuple[str, ...] = ()
    silent: bool = False
    posted_by: Poster | None = None
    pinned: int = 0
    settings: ChatSettings | None = None
    files: bytes | None = None


class ReactionFact(FactBase, frozen=True, kw_only=True, tag="reaction"):
    """A reaction to the entry that precedes it."""

    chat_id: ChatId
    sequence: int
    emoji: str
    user_id: UserKey
    created_at: int


class SendKeyFact(FactBase, frozen=True, kw_only=True, tag="send_key"):
    """An unexpired claim of a sender's client_message_id."""

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
    """The last line: the number of facts of each kind, the SHA-256 of all lines before it, and a
    MAC of that digest under a key derived from a master key."""

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
    | TenantJobFact
    | WebhookFact
    | ErasureFact
    | UserFact
    | SessionFact
    | DataKeyFact
    | RequestKeyFact
    | BlockFact
    | PushFacts
    | InviteFact
    | ReportFact
    | FileFacts
    | ChatFact
    | ChatPart
    | InboxFacts
    | AuditFact
)
Line = ExportStart | Fact | ExportEnd

_ENTRY_FIELDS: Final = EntryFact.__struct_fields__


def entry_fact(entry: Entry, now: int) -> EntryFact:
    """Return an entry as a fact. Expired content is omitted, even if it is still stored."""
    values = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    if entry.box is None or entry.expired(now):
        values |= {"box": None, "box_key": 0, "files": None}
    # Engines store the counts in different orders, and the order has no meaning.
    values["reactions"] = dict(sorted(entry.reactions.items())) if entry.reactions else None
    return EntryFact(**values)


def to_entry(fact: EntryFact) -> Entry:
    """Return the entry that a fact describes."""
    return Entry(**{name: getattr(fact, name) for name in _ENTRY_FIELDS})


class WholeChat(msgspec.Struct, frozen=True, kw_only=True):
    """A chat with its head and members. They are known only after the last of the chat's facts."""

    chat: ChatFact
    head: Head
    deletion: Deletion | None = None
    """The deletion job, if the chat is deleted."""
    members: tuple[UserKey, ...]
    """Members, earliest joined first."""


class UserCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a tenant's users, which is known only after the last user."""

    tenant: str
    users: int


Written = Fact | WholeChat | UserCount
"""Facts and totals that an engine stores during an import."""
