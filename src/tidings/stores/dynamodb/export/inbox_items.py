# SPDX-License-Identifier: Apache-2.0
"""Conversion of inbox facts to items."""

from collections import defaultdict
from collections.abc import Iterator

from tidings.model.notifications import Broadcast, Copy, InboxConfig, Notification, ReadState
from tidings.ports.export_facts import UserCount
from tidings.ports.export_inbox_facts import (
    BroadcastFact,
    CopyFact,
    DeadLetterFact,
    InboxFact,
    InboxFacts,
    JobFact,
    NotificationFact,
    PostKeyFact,
    ReadStateFact,
    TenantSettingsFact,
    converted,
)
from tidings.ports.inboxes import PostKey
from tidings.ports.jobs import DeadLetter, Job
from tidings.stores.dynamodb.client.errors import Item
from tidings.stores.dynamodb.identity.user_counts import count_item
from tidings.stores.dynamodb.inbox.items import (
    DUE,
    announcement_item,
    claim_item,
    config_key,
    copy_item,
    notification_item,
    portions_key,
    portions_ttl,
    settings_key,
)
from tidings.stores.dynamodb.inbox.jobs import aside_item, job_item
from tidings.stores.dynamodb.inbox.read_marks import marks_item, said_item
from tidings.stores.dynamodb.tables import TTL


def inbox_items(fact: InboxFacts | UserCount) -> Iterator[Item]:
    """Yield the items that store a fact."""
    match fact:
        case UserCount():
            yield count_item(fact.tenant, fact.users)
        case TenantSettingsFact():
            yield said_item(settings_key(fact.tenant), fact.settings)
        case InboxFact():
            yield said_item(config_key(fact.tenant, fact.inbox), converted(InboxConfig, fact))
        case NotificationFact():
            yield notification_item(converted(Notification, fact))
            yield from _portions(fact)
        case BroadcastFact():
            yield _announcement(fact)
        case PostKeyFact():
            yield claim_item(fact.tenant, fact.inbox, fact.key, converted(PostKey, fact))
        case CopyFact():
            yield copy_item(fact.user_id, fact.inbox, converted(Copy, fact))
        case ReadStateFact():
            yield marks_item(fact.user_id, fact.inbox, converted(ReadState, fact))
        case JobFact():
            yield job_item(converted(Job, fact))
        case DeadLetterFact():
            yield aside_item(converted(DeadLetter, fact, job=converted(Job, fact.job)))


def _portions(fact: NotificationFact) -> Iterator[Item]:
    """Yield the items of finished jobs, grouped as the store groups them."""
    done: defaultdict[str, list[int]] = defaultdict(list)
    keys: dict[str, Item] = {}
    for number in fact.finished_jobs:
        key = portions_key(fact.tenant, fact.inbox, fact.notification_id, number)
        keys[key["sk"]] = key
        done[key["sk"]].append(number)
    ttl = portions_ttl(fact.notification_id)
    for name, key in keys.items():
        yield {**key, "done": frozenset(done[name]), TTL: ttl}


def _announcement(fact: BroadcastFact) -> Item:
    """Return the item of a broadcast; DynamoDB may expire any but the last of a log."""
    item = announcement_item(converted(Broadcast, fact))
    return item if fact.is_last else {**item, TTL: item[DUE]}
