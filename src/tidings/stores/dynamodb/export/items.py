# SPDX-License-Identifier: Apache-2.0
"""Converts exported facts, including those of the inbox, to items and back.

The conversions of entries, their bodies and reactions are in `chat.items`.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec

from tidings.model.blocks import Block
from tidings.model.escalations import Escalation
from tidings.model.ids import ChatId, UserKey
from tidings.model.notification_states import BroadcastStates
from tidings.model.notifications import Broadcast, Copy, InboxConfig, Notification
from tidings.model.receipt_times import DELIVERED_TIMES_MAX, READ_TIMES_MAX, packed, unpacked
from tidings.model.scheduled import Scheduled
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.bus import DeadLetter, Job
from tidings.ports.due import due_of
from tidings.ports.erasing import LedgerEntry
from tidings.ports.escalations import due_of_escalation
from tidings.ports.export_facts import (
    BlockFact,
    DataKeyFact,
    IssuerFact,
    MemberFact,
    RequestKeyFact,
    RevocationFact,
    SecretFact,
    SendKeyFact,
    SigningKeyFact,
    TenantFact,
    TenantKeyFact,
    UserCount,
    UserFact,
)
from tidings.ports.export_feature_facts import ErasureFact, TenantJobFact, WebhookFact
from tidings.ports.export_inbox_facts import (
    BroadcastFact,
    BroadcastStatesFact,
    CopyFact,
    DeadLetterFact,
    EscalationFact,
    HeldJobFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    PostKeyFact,
    ReadStateFact,
    ScheduledFact,
    TenantSettingsFact,
    converted,
    read_state_of,
    waits_for_log,
)
from tidings.ports.inboxes import PostKey
from tidings.ports.scheduled_notifications import due_of_job, due_of_notification
from tidings.ports.tenant_jobs import TenantJob
from tidings.stores.dynamodb.chat.deletions import is_deletion
from tidings.stores.dynamodb.chat.items import (
    member_key,
    receipt_key,
    times_to_numbers,
    to_receipt,
    to_times,
)
from tidings.stores.dynamodb.chat.scheduled import scheduled_item
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.identity.blocks import PARTITION, block_items, to_block
from tidings.stores.dynamodb.identity.erasing import KNOWN, known_item
from tidings.stores.dynamodb.identity.items import (
    ISSUER,
    SIGNING,
    TENANT,
    TENANT_KEY,
    api_key_key,
    signing_key,
    to_issuer_fact,
    to_issuer_item,
    to_tenant_fact,
    to_tenant_item,
)
from tidings.stores.dynamodb.identity.phone_claims import count_item
from tidings.stores.dynamodb.identity.push import is_push
from tidings.stores.dynamodb.identity.sessions import ERASURES, REVOCATIONS
from tidings.stores.dynamodb.identity.tenant_jobs import OPEN, is_job, job_items, to_job
from tidings.stores.dynamodb.identity.webhooks import WEBHOOK, to_webhook, webhook_item
from tidings.stores.dynamodb.inbox.copies import marks_item
from tidings.stores.dynamodb.inbox.due import due_item
from tidings.stores.dynamodb.inbox.escalations import escalation_item
from tidings.stores.dynamodb.inbox.items import (
    DUE,
    broadcast_item,
    claim_item,
    copy_item,
    notification_item,
    portions_key,
    portions_ttl,
    settings_key,
)
from tidings.stores.dynamodb.inbox.jobs import dead_letter_item, job_item
from tidings.stores.dynamodb.inbox.notifications import config_item, settings_item
from tidings.stores.dynamodb.inbox.scheduled_notifications import held_item
from tidings.stores.dynamodb.inbox.states import states_item
from tidings.stores.dynamodb.tables import TTL, request_keys_of, ttl_seconds

OneItem = (
    SecretFact
    | TenantFact
    | TenantKeyFact
    | SigningKeyFact
    | IssuerFact
    | TenantJobFact
    | WebhookFact
    | ErasureFact
)
"""Facts that are stored as one item in the table of tenants."""
OfTenants = OneItem | RevocationFact
"""Facts that are stored in the table of tenants."""

DEPLOYMENT: Final = "deployment"
_SECRET: Final = "secret#"
_REQUESTS: Final = request_keys_of("")


def inbox_items(fact: InboxFacts | UserCount) -> Iterator[Item]:
    """Yield the items that store a fact in the table of inboxes."""
    match fact:
        case UserCount():
            yield count_item(fact.tenant, fact.users)
        case TenantSettingsFact():
            yield settings_item(settings_key(fact.tenant), fact.settings)
        case InboxFact():
            yield config_item(fact.tenant, fact.inbox, converted(InboxConfig, fact))
        case NotificationFact():
            notification = converted(Notification, fact)
            yield notification_item(notification)
            yield from _portions(fact)
            if waits_for_log(fact):
                due = due_of_notification(notification, fact.posted_at)
                yield due_item(due, due.at)
        case HeldJobFact():
            job = converted(Job, fact)
            yield held_item(job)
            yield due_item(due_of_job(job), job.posted_at)
        case EscalationFact():
            escalation = converted(Escalation, fact)
            yield escalation_item(escalation)
            yield due_item(due_of_escalation(escalation, fact.at), fact.at)
        case BroadcastFact():
            yield _broadcast_fact_item(fact)
        case PostKeyFact():
            yield claim_item(fact.tenant, fact.inbox, fact.key, converted(PostKey, fact))
        case CopyFact():
            yield copy_item(fact.user_id, fact.inbox, converted(Copy, fact))
        case ReadStateFact():
            yield marks_item(fact.user_id, fact.inbox, read_state_of(fact))
        case BroadcastStatesFact():
            yield states_item(fact.user_id, fact.inbox, converted(BroadcastStates, fact))
        case JobFact():
            yield job_item(converted(Job, fact))
        case DeadLetterFact():
            yield dead_letter_item(converted(DeadLetter, fact, job=converted(Job, fact.job)))
        case ScheduledFact():
            message = converted(Scheduled, fact)
            yield scheduled_item(message)
            if message.is_open:
                yield due_item(due_of(message), message.send_at)


def _portions(fact: NotificationFact) -> Iterator[Item]:
    """Yield the items that record which delivery jobs of a notification are done, up to 100 jobs in
    each item."""
    done: defaultdict[str, list[int]] = defaultdict(list)
    keys: dict[str, Item] = {}
    for number in fact.finished_jobs:
        key = portions_key(fact.tenant, fact.inbox, fact.notification_id, number)
        keys[key["sk"]] = key
        done[key["sk"]].append(number)
    ttl = portions_ttl(fact.notification_id)
    for name, key in keys.items():
        yield {**key, "done": frozenset(done[name]), TTL: ttl}


def _broadcast_fact_item(fact: BroadcastFact) -> Item:
    """Return the item of a broadcast, with a TTL unless the broadcast is the last in its log."""
    item = broadcast_item(converted(Broadcast, fact))
    return item if fact.is_last else {**item, TTL: item[DUE]}


def value_key(name: str) -> Item:
    """Return the key of the item that stores a deployment-wide value, such as a secret."""
    return {"pk": DEPLOYMENT, "sk": name}


# The table of tenants.


def tenants_item(fact: OneItem) -> Item:
    """Return the item that stores this fact in the table of tenants."""
    rest = {name: getattr(fact, name) for name in fact.__struct_fields__}
    match fact:
        case SecretFact():
            key = value_key(_SECRET + rest.pop("name"))
        case TenantFact():
            return to_tenant_item(fact)
        case TenantKeyFact():
            key = api_key_key(rest.pop("key_id"))
        case SigningKeyFact():
            key = signing_key(rest.pop("tenant"), rest.pop("key_id"))
        case ErasureFact():
            return known_item(converted(LedgerEntry, fact, by=""))
        case WebhookFact():
            return webhook_item(converted(WebhookEndpoint, fact))
        case TenantJobFact():
            return job_items(converted(TenantJob, fact))[0]
        case _:
            return to_issuer_item(fact)
    return _without_none({**key, **rest})


def to_tenants_fact(item: Item) -> OfTenants | None:
    """Convert an item in the table of tenants to a fact; return None if the item is not
    exported."""
    pk, sk = item["pk"], item["sk"]
    rest = {name: value for name, value in item.items() if name not in ("pk", "sk")}
    if pk == DEPLOYMENT:
        return SecretFact(name=sk.removeprefix(_SECRET), **rest) if sk.startswith(_SECRET) else None
    if is_deletion(item) or pk == OPEN or pk.startswith((ERASURES, PARTITION)) or is_push(item):
        # Derived from the last entry of the chat, the unfinished job, or the feed. Blocks and push
        # are exported apart.
        return None
    if pk == KNOWN:
        kind, _, subject = sk.partition("#")
        return ErasureFact(kind=kind, subject=subject, **rest)
    if is_job(item):
        return converted(TenantJobFact, to_job(item))
    if pk == REVOCATIONS:
        return RevocationFact(place=int(sk), **rest)
    if pk.startswith(TENANT_KEY):
        return TenantKeyFact(key_id=pk.removeprefix(TENANT_KEY), **rest)
    if sk.startswith(WEBHOOK):
        return converted(WebhookFact, to_webhook(item))
    if sk == ISSUER:
        return to_issuer_fact(item)
    if sk.startswith(SIGNING):
        key_id = sk.removeprefix(SIGNING)
        return SigningKeyFact(tenant=pk.removeprefix(TENANT), key_id=key_id, **rest)
    return to_tenant_fact(item)


# Users and members.


def to_block_fact(item: Item) -> BlockFact:
    """Convert the item of a block to a fact."""
    fields = msgspec.structs.asdict(to_block(item))
    return BlockFact(user_id=fields.pop("user"), **fields)


def to_block_items(fact: BlockFact) -> list[Item]:
    """Return the items that store a block."""
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return block_items(Block(user=fields.pop("user_id"), **fields))


def to_user_fact(item: Item) -> UserFact:
    """Convert a user's item to a fact."""
    return UserFact(**item)


def to_data_key_fact(item: Item) -> DataKeyFact:
    """Convert the item of a data key to a fact, without the key if it is being destroyed."""
    if "is_ending" in item:
        return DataKeyFact(author=item["author"], generation=item["generation"])
    return DataKeyFact(**item)


def member_items(fact: MemberFact) -> tuple[Item, Item]:
    """Return the two items that store a membership and its receipt."""
    membership = {
        **member_key(fact.chat_id, fact.user_id),
        "role": fact.role,
        "joined_at": fact.joined_at,
        "joined": fact.joined,
        "muted_until": fact.muted_until,
        "except_mentions": fact.except_mentions or None,
    }
    receipt = {
        **receipt_key(fact.user_id, fact.chat_id),
        "delivered": fact.delivered,
        "read": fact.read,
        "read_number": fact.read_number,
        "own": fact.is_own or None,  # False may mean unknown: older export files lack the field
        "unread_from": fact.unread_from or None,
        "unread_number": fact.unread_number if fact.unread_from else None,
        "hidden_number": fact.hidden_number if fact.hidden_number >= 0 else None,
        "deliveries": times_to_numbers(unpacked(fact.delivered_times)) or None,
        "reads": times_to_numbers(unpacked(fact.read_times)) or None,
    }
    return _without_none(membership), _without_none(receipt)


def to_member_fact(membership: Item, receipt: Item) -> MemberFact:
    """Convert the two items of a member to a fact, in which everything read is also marked as
    delivered."""
    marks = to_receipt(receipt)
    return MemberFact(
        **membership,
        delivered=marks.delivered,
        read=marks.read,
        read_number=marks.read_number,
        is_own=receipt.get("own", False),
        unread_from=marks.unread_from,
        unread_number=marks.unread_number,
        hidden_number=marks.hidden_number,
        delivered_times=packed(to_times(receipt.get("deliveries"), DELIVERED_TIMES_MAX)),
        read_times=packed(to_times(receipt.get("reads"), READ_TIMES_MAX)),
    )


# Claimed keys.


def request_item(fact: RequestKeyFact) -> Item:
    """Return the item that stores the idempotency key of a request to create a chat."""
    return {
        "chat_id": request_keys_of(fact.user_id),
        "claim": fact.key,
        "digest": fact.digest,
        "made": fact.chat_id,
        "is_finished": fact.is_finished,
        "expires_at": fact.expires_at,
        TTL: ttl_seconds(fact.expires_at),
    }


def to_request_fact(item: Item) -> RequestKeyFact:
    """Convert an item to the fact about a request to create a chat."""
    return RequestKeyFact(
        user_id=UserKey(item["chat_id"].removeprefix(_REQUESTS)),
        key=item["claim"],
        digest=item["digest"],
        chat_id=ChatId(item["made"]),
        expires_at=item["expires_at"],
        is_finished=item["is_finished"],
    )


def to_send_key_fact(item: Item) -> SendKeyFact:
    """Convert an item to the fact about an idempotency key that a send has claimed.

    A user key has no `#`, so the first `#` in the claim ends the sender.
    """
    sender, _, client_message_id = item["claim"].partition("#")
    return SendKeyFact(
        chat_id=ChatId(item["chat_id"]),
        sender=UserKey(sender),
        client_message_id=client_message_id,
        hint=item["hint"],
        digest=item["digest"],
        expires_at=item["expires_at"],
    )


def _without_none(item: Item) -> Item:
    return {name: value for name, value in item.items() if value is not None}
