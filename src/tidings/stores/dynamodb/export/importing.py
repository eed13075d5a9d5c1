# SPDX-License-Identifier: Apache-2.0
"""Imports all facts of a deployment into empty tables.

Each fact is written on its own, and the writes are safe to repeat. The progress of the import is
stored after all facts that it covers, so an import that resumes there leaves nothing out. Facts are
not written in batches, because the right to write batches includes the right to delete, and no
process may delete entries from the log.

After an upgrade, `fill_lists` and `fill_heads` use the same writes to add list items and head
copies that older versions did not write.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.attachments import LATE_BYTES_MS, Upload
from tidings.model.chats import DIRECT_MEMBERS
from tidings.model.entries import Entry, SendKey
from tidings.model.formats import NEWEST
from tidings.model.push import PushRegistration, PushSettings
from tidings.model.reports import Report
from tidings.model.roles import Invite
from tidings.model.scheduled import Scheduled
from tidings.model.setup_error import SetupError
from tidings.ports.attachments import Visit
from tidings.ports.audit import AuditEntry
from tidings.ports.erasing import LedgerEntry
from tidings.ports.export_engines import ExportProgress, Target
from tidings.ports.export_facts import (
    AuditFact,
    BlockFact,
    ChatFact,
    DataKeyFact,
    EntryFact,
    InviteFact,
    MemberFact,
    ReactionFact,
    ReportFact,
    RequestKeyFact,
    RevocationFact,
    SendKeyFact,
    SessionFact,
    TenantFact,
    TenantKeyFact,
    UserCount,
    UserFact,
    WholeChat,
    Written,
    to_entry,
)
from tidings.ports.export_feature_facts import (
    BytesFact,
    ErasureFact,
    PushFacts,
    PushSettingsFact,
    TenantJobFact,
    UploadFact,
)
from tidings.ports.export_inbox_facts import InboxFacts, ScheduledFact, converted, first_due
from tidings.ports.people import TenantKey
from tidings.ports.sessions import Revocation
from tidings.ports.tenant_jobs import TenantJob
from tidings.stores.dynamodb import listings, patterns
from tidings.stores.dynamodb.chat.deletions import deletion_items
from tidings.stores.dynamodb.chat.delivering import fill_missing
from tidings.stores.dynamodb.chat.invites import invite_item
from tidings.stores.dynamodb.chat.items import body_item, claim_item, entry_item, reaction_key
from tidings.stores.dynamodb.chat.link_patterns import IMPORT_LINK, IMPORT_UPLOAD
from tidings.stores.dynamodb.chat.links import mention_items, pin_key, reply_item
from tidings.stores.dynamodb.chat.members import FIRST_MEMBERS
from tidings.stores.dynamodb.chat.scheduled import DynamoScheduled
from tidings.stores.dynamodb.chat.uploads import upload_item, visit_item
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.export.items import (
    inbox_items,
    member_items,
    request_item,
    tenants_item,
    to_block_items,
)
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.formats import EPOCH, PROCESS
from tidings.stores.dynamodb.identity import identity_patterns
from tidings.stores.dynamodb.identity.audit import audit_item
from tidings.stores.dynamodb.identity.erasing import record
from tidings.stores.dynamodb.identity.items import (
    IS_SESSION,
    put_user,
    to_api_key,
    to_session_item,
    to_tenant,
    with_own_numbers,
)
from tidings.stores.dynamodb.identity.phone_claims import IS_USER
from tidings.stores.dynamodb.identity.push import push_settings_item, registration_items
from tidings.stores.dynamodb.identity.reports import report_items
from tidings.stores.dynamodb.identity.secrets import MasterList
from tidings.stores.dynamodb.identity.sessions import feed_items
from tidings.stores.dynamodb.identity.tenant_jobs import job_items
from tidings.stores.dynamodb.inbox import inbox_patterns
from tidings.stores.dynamodb.inbox.due import begin_at
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.store import IMPORT, first_answer

MARK: Final = "import"
"""Used in imported claims instead of the writer's mark, and in the names of imported bodies instead
of a random part."""
FILLED_PER_SECOND: Final = 1_500
"""Rate at which lists are filled. A tenant's list accepts 4,000 writes per second, and the tenant's
new users and chats need their share."""

_MUST_BE_EMPTY: Final = (
    (patterns.SCAN_TENANTS, ""),
    (patterns.SCAN_USERS, ""),
    (identity_patterns.SCAN_SESSIONS, IS_SESSION),
    (patterns.SCAN_AUTHORS, ""),
    (patterns.SCAN_CHATS, ""),
    (inbox_patterns.SCAN_INBOX, ""),
)

_Write = Callable[[], Awaitable[object]]


class DynamoTarget:
    """Writes facts into empty tables."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._masters = MasterList(dynamo, dynamo.chance)

    async def begin(self) -> ExportProgress:
        found = await self._dynamo.get(patterns.READ_VALUE, IMPORT)
        if found is not None:
            return ExportProgress(found["lines"], found["sha256"])
        for pattern, only in _MUST_BE_EMPTY:
            async for page in whole_table(self._dynamo, pattern, only):
                if not all(_is_of_process(item) for item in page):
                    raise SetupError(
                        "the tables are not empty: an import needs empty tables, named by "
                        "TIDINGS_DYNAMODB_PREFIX"
                    )
        begun = ExportProgress()
        await self._keep(begun)
        return begun

    async def write(self, facts: Sequence[Written], progress: ExportProgress) -> None:
        data_keys = (fact for fact in facts if isinstance(fact, DataKeyFact))
        for master_key_id in {fact.master_key_id for fact in data_keys}:
            if master_key_id is not None:
                await self._masters.before_wrapping(master_key_id)
        await gather_bounded(
            write for fact in with_own_numbers(facts) for write in self._writes(fact)
        )
        for kind, at in first_due(facts).items():
            await begin_at(self._dynamo, kind, at)
        await self._keep(progress)

    async def finish(self, epoch: str) -> None:
        await fill_all_heads(self._dynamo, epoch)
        item = {**EPOCH, "value": epoch, "writes": NEWEST}
        await self._dynamo.put(patterns.KEEP_VALUE, item)
        await self._dynamo.delete(patterns.FINISH_IMPORT, IMPORT)

    async def _keep(self, progress: ExportProgress) -> None:
        item = {**IMPORT, "lines": progress.lines, "sha256": progress.sha256}
        await self._dynamo.put(patterns.KEEP_VALUE, item)

    def _writes(self, fact: Written) -> Iterator[_Write]:
        if isinstance(fact, DataKeyFact):
            yield partial(self._put_data_key, fact)
        elif isinstance(fact, UserFact):
            yield partial(put_user, self._dynamo, fact)
        elif isinstance(fact, ScheduledFact) and (message := converted(Scheduled, fact)).is_open:
            yield partial(DynamoScheduled(self._dynamo).count, message)
        elif isinstance(fact, ErasureFact):
            yield partial(record, self._dynamo, converted(LedgerEntry, fact, by=""))
        for pattern, item in _items(fact):
            yield partial(self._dynamo.put, pattern, item)

    async def _put_data_key(self, fact: DataKeyFact) -> None:
        # This is an update, because no process has the right to put items into this table.
        update = "SET #generation = :generation"
        values: Item = {":generation": fact.generation}
        if fact.wrapped is not None:
            update += ", #wrapped = :wrapped, #master_key_id = :master"
            values |= {":wrapped": fact.wrapped, ":master": fact.master_key_id}
        await self._dynamo.update(
            patterns.IMPORT_DATA_KEY, {"author": fact.author}, update, values=values
        )


def _push_items(fact: PushFacts) -> Iterator[tuple[Pattern, Item]]:
    if isinstance(fact, PushSettingsFact):
        yield patterns.IMPORT_TENANT, push_settings_item(converted(PushSettings, fact))
        return
    device, claim, listing = registration_items(converted(PushRegistration, fact))
    yield patterns.IMPORT_TENANT, device
    yield patterns.IMPORT_TENANT, claim
    yield identity_patterns.FILL_LISTING, listing


def _items(fact: Written) -> Iterator[tuple[Pattern, Item]]:
    match fact:
        case DataKeyFact() | ChatFact() | BytesFact():
            return
        case UserFact():
            yield identity_patterns.FILL_LISTING, listings.user_listing(fact.user_id)
        case AuditFact():
            yield identity_patterns.APPEND_AUDIT, audit_item(converted(AuditEntry, fact))
        case SessionFact():
            yield identity_patterns.IMPORT_SESSION, to_session_item(fact)
        case RequestKeyFact():
            yield patterns.IMPORT_KEY, request_item(fact)
        case BlockFact():
            for item in to_block_items(fact):
                yield patterns.IMPORT_TENANT, item
        case _ if isinstance(fact, PushFacts):
            yield from _push_items(fact)
        case InviteFact():
            yield patterns.IMPORT_KEY, invite_item(converted(Invite, fact))
        case ReportFact():
            for item in report_items(converted(Report, fact)):
                yield patterns.IMPORT_KEY, item
        case UploadFact():
            # The sweeper looks at the message, and comes again when the message expires.
            at = fact.expires_at + LATE_BYTES_MS
            yield IMPORT_UPLOAD, visit_item(Visit(fact.owner, fact.attachment_id, at))
            yield IMPORT_UPLOAD, upload_item(converted(Upload, fact))
        case MemberFact():
            membership, receipt = member_items(fact)
            yield patterns.IMPORT_MEMBER, membership
            yield patterns.IMPORT_RECEIPT, receipt
        case EntryFact():
            yield from _entry_items(to_entry(fact))
        case ReactionFact():
            key = reaction_key(fact.chat_id, fact.sequence, fact.emoji, fact.user_id)
            yield patterns.IMPORT_REACTION, {**key, "created_at": fact.created_at}
        case SendKeyFact():
            yield patterns.IMPORT_KEY, _claim(fact)
        case WholeChat():
            yield from _chat_items(fact)
        case RevocationFact():
            revocation = Revocation(kind=fact.kind, subject=fact.subject, at=fact.at)
            for item in feed_items(fact.place, revocation):
                yield patterns.IMPORT_TENANT, item
        case _ if isinstance(fact, InboxFacts | UserCount):
            for item in inbox_items(fact):
                yield inbox_patterns.IMPORT_INBOX, item
        case _:
            item = tenants_item(fact)
            yield patterns.IMPORT_TENANT, item
            if isinstance(fact, TenantFact):
                listing = listings.tenant_listing(to_tenant(item))
                yield identity_patterns.FILL_LISTING, listing
            elif isinstance(fact, TenantJobFact):
                for listing in job_items(converted(TenantJob, fact))[1:]:
                    yield patterns.IMPORT_TENANT, listing
            elif isinstance(fact, TenantKeyFact):
                listing = listings.key_listing(converted(TenantKey, fact))
                yield identity_patterns.FILL_LISTING, listing


def _is_of_process(item: Item) -> bool:
    """Return True if the item is written by every process that opens the tables.

    Such an item may exist in tables that are otherwise empty.
    """
    if item.get("pk") != EPOCH["pk"]:
        return False
    name: str = item["sk"]
    return name == EPOCH["sk"] or name.startswith(PROCESS)


def link_items(entry: Entry) -> Iterator[tuple[Pattern, Item]]:
    """Yield the items that list a message among replies, pins and mentions."""
    if entry.reply_to is not None:
        yield IMPORT_LINK, reply_item(entry)
    if entry.pinned:
        pin = {**pin_key(entry.chat_id, entry.pinned), "target": entry.sequence}
        yield IMPORT_LINK, pin
    for mention in mention_items(entry):
        yield patterns.IMPORT_KEY, mention


def _entry_items(entry: Entry) -> Iterator[tuple[Pattern, Item]]:
    yield from link_items(entry)
    if entry.kind != "message" or entry.box is None:
        item = entry_item(entry)
        stored = {name: value for name, value in item.items() if value is not None}
        yield patterns.IMPORT_ENTRY, stored
    elif entry.expires_at is None:
        yield patterns.IMPORT_ENTRY, entry_item(entry)
    else:
        # The name is always the same, so that a repeated import leaves no second body.
        body_id = f"{entry.sequence:016d}.{MARK}"
        yield patterns.IMPORT_BODY, body_item(entry, body_id)
        yield patterns.IMPORT_ENTRY, entry_item(entry, body_id)


def _claim(fact: SendKeyFact) -> Item:
    key = SendKey(fact.sender, fact.client_message_id, fact.digest, fact.expires_at)
    at_hint = Entry(
        chat_id=fact.chat_id, kind="message", sender=fact.sender, sequence=fact.hint, mark=MARK
    )
    return claim_item(fact.chat_id, key, at_hint)


def _chat_items(whole: WholeChat) -> Iterator[tuple[Pattern, Item]]:
    chat = whole.chat
    named = {name: getattr(chat, name) for name in chat.__struct_fields__}
    item: Item = {
        **{name: value for name, value in named.items() if value is not None},
        "member_count": len(whole.members),
        "first_members": list(whole.members[:FIRST_MEMBERS]),
        "as_of": whole.head.sequence,
    }
    if (job := whole.deletion) is not None:
        item["deleted_at"] = job.created_at
        for deletion in deletion_items(job):
            yield patterns.IMPORT_TENANT, deletion
    else:
        yield identity_patterns.FILL_LISTING, listings.chat_listing(chat.tenant, chat.chat_id)
    yield patterns.IMPORT_CHAT, item
    if chat.type == "direct" and len(whole.members) == DIRECT_MEMBERS:
        pair = "#".join(sorted(whole.members))
        yield patterns.IMPORT_CHAT, {"chat_id": f"d#{pair}", "made": chat.chat_id}


async def fill_lists(dynamo: Dynamo) -> int:
    """Add every tenant, tenant key, user and chat to its list; return how many. Safe to repeat."""
    count = 0
    for pattern, only in (
        (patterns.SCAN_TENANTS, ""),
        (patterns.SCAN_USERS, IS_USER),
        (patterns.SCAN_CHATS, ""),
    ):
        async for page in whole_table(dynamo, pattern, only, items_per_second=FILLED_PER_SECOND):
            found = [listing for item in page if (listing := _listing_of(item)) is not None]
            await gather_bounded(
                partial(dynamo.put, identity_patterns.FILL_LISTING, listing) for listing in found
            )
            count += len(found)
    return count


async def fill_heads(dynamo: Dynamo, now: int) -> int:
    """Write the head copies that old chats lack; return the number of these chats.

    These are the chats of older versions, and those without a message since a restore.
    """
    found = await first_answer(dynamo)
    if found is None:
        return 0  # no process has run yet
    # The stream, from which relays deliver, reaches back one day.
    return await fill_all_heads(dynamo, found["value"], before=now - limits.DAY_MS)


async def fill_all_heads(dynamo: Dynamo, epoch: str, before: int | None = None) -> int:
    """Write the head copies that chats lack in an epoch; return the number of these chats.

    With `before`, chats with a later entry are left out.
    """
    count = 0
    async for page in whole_table(
        dynamo, patterns.SCAN_CHATS, "", items_per_second=FILLED_PER_SECOND
    ):
        count += await fill_missing(dynamo, epoch, page, before)
    return count


def _listing_of(item: Item) -> Item | None:
    """Return the list item of a tenant, tenant key, user or chat; None for any other item."""
    match item:
        case {"sk": "tenant"}:
            return listings.tenant_listing(to_tenant(item))
        case {"sk": "key"}:
            return listings.key_listing(to_api_key(item))
        case {"user_id": user}:
            return listings.user_listing(user)
        case {"chat_id": chat, "tenant": tenant} if "deleted_at" not in item:
            return listings.chat_listing(tenant, chat)
        case _:
            return None


async def open_target(dynamo: Dynamo) -> DynamoTarget:
    """Open the existing tables for an import.

    Raises:
        SetupError: The tables do not exist.
        StoreUnavailable: The tables cannot be reached.
    """
    await first_answer(dynamo)
    return DynamoTarget(dynamo)


_conforms: type[Target] = DynamoTarget
