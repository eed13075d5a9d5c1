# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs for chats and inboxes, and the parts that check credentials."""

from dataclasses import dataclass

from tidings.actions.chat.changes import Removing
from tidings.actions.chat.chats import CreateChat, GetChat, ListChats, ListTenantChats, Mute
from tidings.actions.chat.deleting import DeleteChat
from tidings.actions.chat.inspecting import InspectChat
from tidings.actions.chat.invites import (
    AcceptInvite,
    DeclineInvite,
    Invitations,
    ListInvites,
    StrangerBudget,
)
from tidings.actions.chat.members import LeaveChats, PutMember, RemoveAsTenant, RemoveMember, Rename
from tidings.actions.chat.message_changes import Edit, Pin, React, Redact
from tidings.actions.chat.message_receipts import ListMessageReceipts
from tidings.actions.chat.reading import (
    CoalescedReceipts,
    ListMembers,
    ListMentions,
    ListReactions,
    ListReceipts,
    ReadPage,
)
from tidings.actions.chat.sending import Post
from tidings.actions.chat.unread import CountTotal, HideChat, MarkReceipt, MarkUnread, UnreadCounter
from tidings.actions.content.wrapping import Wrapping
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.counting import CountUnread
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.posted import (
    FindNotification,
    GetProgress,
    ListPosted,
    RetractNotification,
)
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.reading import ListNotifications, MarkRead
from tidings.actions.inbox.settings import InboxConfigs, ListInboxes, Settings
from tidings.actions.inbox.showing import NotificationReader, NotificationTexts
from tidings.actions.jobs.ledger import Erasures
from tidings.actions.verbs import ChatVerbs, InboxVerbs
from tidings.assembly.foundation import Foundation
from tidings.assembly.system import back_off
from tidings.ports.store import Store
from tidings.ports.world import Clock
from tidings.schema_checker import ProcessChecker


@dataclass(frozen=True, slots=True)
class Identity:
    """Parts that check and cache credentials, and the watch that reports revocations to them."""

    watch: RevocationWatch
    signing: SigningKeys
    own_keys: TenantIssuerKeys
    credential_status: CredentialStatus
    authenticate: Authenticate


def make_identity(
    root_key: str, store: Store, wrapping: Wrapping, quotas: TenantQuotas, clock: Clock
) -> Identity:
    """Make the parts that check credentials; the caller starts the `RevocationWatch`."""
    watch = RevocationWatch(store.revocations)
    signing = SigningKeys(store.tenants, wrapping, clock, watch)
    own_keys = TenantIssuerKeys(store.tenants, clock, watch)
    credential_status = CredentialStatus(
        store.tenants, store.users, store.sessions, clock, watch, quotas
    )
    authenticate = Authenticate(
        root_key, store.tenants, signing, own_keys, credential_status, watch, clock
    )
    return Identity(watch, signing, own_keys, credential_status, authenticate)


def make_inbox_verbs(base: Foundation) -> InboxVerbs:
    """Make the verbs for inboxes."""
    store, vault, bus, clock, chance = base.store, base.vault, base.bus, base.clock, base.chance
    notifications, copies = store.notifications, store.copies
    settings = Settings(store.inbox_settings, store.tenants)
    configs = InboxConfigs(store.inbox_settings, store.tenants, store.tenant_jobs)
    texts = NotificationTexts(vault)
    views = LogViews(notifications, clock)
    showing = NotificationReader(notifications, store.users, views, texts, clock)
    append_broadcast = BroadcastAppender(notifications, views, clock, back_off)
    find = FindNotification(configs, notifications, clock)
    unread = CountUnread(configs, copies, views, showing, clock)
    return InboxVerbs(
        settings=settings,
        configs=configs,
        inboxes=ListInboxes(store.inbox_settings, store.tenants, vault.cursors),
        posted=ListPosted(configs, notifications, views, texts, vault.cursors, clock),
        post=_posting(base, configs, settings, texts, views, append_broadcast),
        progress=GetProgress(find, notifications, views, texts),
        redact=RetractNotification(
            find, notifications, views, append_broadcast, bus, clock, chance
        ),
        list=ListNotifications(configs, copies, views, showing, vault.cursors, clock),
        read=MarkRead(configs, copies, views, showing, bus, clock, unread),
        unread=unread,
        views=views,
        showing=showing,
    )


def _posting(
    base: Foundation,
    configs: InboxConfigs,
    settings: Settings,
    texts: NotificationTexts,
    views: LogViews,
    append_broadcast: BroadcastAppender,
) -> PostNotification:
    return PostNotification(
        configs=configs,
        settings=settings,
        schemas=MessageSchemas(ProcessChecker()),
        notifications=base.store.notifications,
        jobs=base.jobs,
        users=base.store.users,
        texts=texts,
        views=views,
        append_broadcast=append_broadcast,
        vault=base.vault,
        bus=base.bus,
        clock=base.clock,
        chance=base.chance,
    )


def make_chat_verbs(base: Foundation, inbox: InboxVerbs, receipts: CoalescedReceipts) -> ChatVerbs:
    """Make the verbs for chats."""
    store, vault, bus, clock, chance = base.store, base.vault, base.bus, base.clock, base.chance
    log, chats, users = store.log, store.chats, store.users
    appender, quotas = base.appender, base.quotas
    strangers = StrangerBudget(chats, store.budgets, clock, is_counting=base.has_limits)
    invitations = Invitations(store.invites, inbox.settings.asks_strangers, bus, clock)
    removing = Removing(appender, store.invites, clock)
    remove_member = RemoveMember(removing)
    count = UnreadCounter(store.receipts, vault, clock)
    read = ReadPage(log, vault, clock)
    members = ListMembers(chats, store.receipts, base.profiles)
    return ChatVerbs(
        create=CreateChat(chats, users, vault, bus, clock, chance, strangers, invitations, quotas),
        list=ListChats(chats, base.profiles, vault, vault.cursors, clock),
        list_as_tenant=ListTenantChats(store.tenants, users, chats, vault.cursors),
        get=GetChat(chats, base.profiles, vault, clock),
        mute=Mute(chats, bus),
        put_member=PutMember(appender, users, strangers, invitations),
        remove_member=remove_member,
        leave=LeaveChats(remove_member),
        invites=ListInvites(store.invites, clock),
        accept_invite=AcceptInvite(store.invites, chats, appender, clock),
        decline_invite=DeclineInvite(store.invites, clock),
        remove_as_tenant=RemoveAsTenant(removing),
        delete=DeleteChat(appender, store.deletions, Erasures(store.ledger, clock)),
        rename=Rename(appender),
        members=members,
        inspect=InspectChat(log, read, members),
        post=Post(appender, log, vault, clock, quotas, base.retention),
        read=read,
        edit=Edit(appender, log, vault, clock),
        redact=Redact(appender, log),
        react=React(appender, log),
        reactions=ListReactions(log),
        pin=Pin(appender, log),
        mentions=ListMentions(log, vault, vault.cursors, clock),
        receipts=ListReceipts(store.receipts),
        message_receipts=ListMessageReceipts(log, store.receipts, vault.cursors, clock),
        mark=MarkReceipt(store.receipts, receipts, count, bus, clock),
        mark_unread=MarkUnread(store.receipts, receipts, count, bus),
        hide=HideChat(store.receipts, bus),
        count_unread=count,
        count_total=CountTotal(chats, store.receipts, count, inbox.inboxes, inbox.unread, clock),
    )
