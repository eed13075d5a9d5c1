# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs for chats and inboxes, and the parts that check credentials."""

import msgspec

from tidings.actions.attachments.downloading import ReadAttachment
from tidings.actions.attachments.own_files import ReadOwnFile
from tidings.actions.attachments.reported_files import ReadReportedFile
from tidings.actions.attachments.reserving import ReserveUploads
from tidings.actions.attachments.sweeping import SweepAttachments
from tidings.actions.attachments.transfers import Transfers
from tidings.actions.attachments.uploading import (
    AttachmentRules,
    CreateUpload,
    FindUpload,
    PutThumbnail,
    ReceiveBytes,
)
from tidings.actions.chat.as_tenant import CreateAsTenant
from tidings.actions.chat.changes import Removing
from tidings.actions.chat.chat_settings import ChangeSettings
from tidings.actions.chat.chats import CreateChat, GetChat, ListChats, ListTenantChats, Mute
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
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
from tidings.actions.chat.message_changes import Edit, Pin, React, Redact, RedactAsTenant
from tidings.actions.chat.message_receipts import ListMessageReceipts
from tidings.actions.chat.reading import (
    ListMembers,
    ListMentions,
    ListReactions,
    ListReceipts,
    ReadPage,
)
from tidings.actions.chat.reporting import ChangeReport, MakeReport, ReadReports
from tidings.actions.chat.scheduling import Scheduling
from tidings.actions.chat.sending import Post
from tidings.actions.chat.unread import CountTotal, HideChat, MarkReceipt, MarkUnread, UnreadCounter
from tidings.actions.content.wrapping import Wrapping
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.bans import Bans, BanUser
from tidings.actions.identity.blocks import (
    BlockLists,
    BlockUser,
    ListBlocks,
    NewDirectChats,
    NoBlocks,
)
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.completing import CompleteBroadcast
from tidings.actions.inbox.composing import UnsubscribeLinks
from tidings.actions.inbox.counting import CountUnread
from tidings.actions.inbox.delivering import DeliverCopies
from tidings.actions.inbox.late_delivery import DeliverLate
from tidings.actions.inbox.marking import FindListed, MarkRead, MoveMarks
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.posted import (
    FindNotification,
    GetProgress,
    ListPosted,
    RetractNotification,
)
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.preferences import OwnPreferences, Reachable
from tidings.actions.inbox.reading import ListNotifications
from tidings.actions.inbox.settings import InboxConfigs, ListInboxes, Settings
from tidings.actions.inbox.showing import NotificationReader, NotificationTexts
from tidings.actions.inbox.states import ActOnNotification, BroadcastRoom, ChangeStates
from tidings.actions.inbox.unsubscribing import Unsubscribe
from tidings.actions.jobs.ledger import Erasures
from tidings.actions.push.directory import PushDirectory
from tidings.actions.search.searching import Search
from tidings.actions.verbs import ChatVerbs, FileVerbs, InboxVerbs
from tidings.actions.webhooks.raising import RaiseBroadcastDelivered, RaiseDelivered
from tidings.assembly.foundation import Foundation
from tidings.assembly.system import back_off
from tidings.ports.attachments import Blobs, ByteDeletions
from tidings.ports.store import Store
from tidings.ports.world import Clock
from tidings.schema_checker import ProcessChecker


class Identity(msgspec.Struct, frozen=True):
    """Parts that check and cache credentials, and the watch that reports revocations to them."""

    watch: RevocationWatch
    signing: SigningKeys
    own_keys: TenantIssuerKeys
    credential_status: CredentialStatus
    authenticate: Authenticate
    bans: Bans


def make_identity(
    root_key: str, store: Store, wrapping: Wrapping, quotas: TenantQuotas, clock: Clock
) -> Identity:
    """Make the parts that check credentials; the caller starts the `RevocationWatch`."""
    watch = RevocationWatch(store.revocations)
    signing = SigningKeys(store.tenants, wrapping, clock, watch)
    own_keys = TenantIssuerKeys(store.tenants, clock, watch)
    bans = Bans(watch, clock)
    credential_status = CredentialStatus(
        store.tenants, store.users, store.sessions, clock, watch, quotas, bans
    )
    authenticate = Authenticate(
        root_key, store.tenants, signing, own_keys, credential_status, watch, clock
    )
    return Identity(watch, signing, own_keys, credential_status, authenticate, bans)


def make_inbox_verbs(base: Foundation, push: PushDirectory) -> InboxVerbs:
    """Make the verbs for inboxes."""
    store, vault, bus, clock, chance = base.store, base.vault, base.bus, base.clock, base.chance
    notifications, copies = store.notifications, store.copies
    settings = Settings(store.inbox_settings, store.tenants)
    configs = InboxConfigs(store.inbox_settings, store.tenants, store.tenant_jobs)
    texts = NotificationTexts(vault)
    views = LogViews(notifications, clock)
    showing = NotificationReader(notifications, store.users, views, texts, clock)
    append_broadcast = BroadcastAppender(
        notifications, views, clock, back_off, _completing(base, push)
    )
    find = FindNotification(configs, notifications, clock)
    unread = CountUnread(configs, copies, views, showing, clock)
    states, find_listed = store.inbox_states, FindListed(views, showing)
    move = MoveMarks(configs, copies, states, views, clock, unread)
    room = BroadcastRoom(states, clock)
    preferences = OwnPreferences(configs, store.preferences, copies, bus)
    progress = GetProgress(find, notifications, views, texts)
    reachable = Reachable(configs, store.preferences)
    return InboxVerbs(
        settings=settings,
        configs=configs,
        inboxes=ListInboxes(store.inbox_settings, store.tenants, vault.cursors),
        posted=ListPosted(configs, notifications, views, texts, vault.cursors, clock),
        post=_posting(base, configs, settings, texts, views, append_broadcast),
        progress=progress,
        redact=RetractNotification(
            find,
            notifications,
            store.scheduled_notifications,
            views,
            append_broadcast,
            bus,
            clock,
            chance,
        ),
        list=ListNotifications(configs, copies, views, showing, vault.cursors, clock),
        read=MarkRead(configs, copies, find_listed, move, bus, clock),
        states=ChangeStates(configs, copies, states, find_listed, move, room, bus, clock),
        act=ActOnNotification(
            configs, copies, states, find_listed, showing, room, base.tenant_events, bus, clock
        ),
        unread=unread,
        preferences=preferences,
        unsubscribe=Unsubscribe(
            UnsubscribeLinks(vault.cursors), preferences, store.users, store.tenants
        ),
        views=views,
        showing=showing,
        reachable=reachable,
        deliver=DeliverCopies(
            notifications=notifications,
            copies=copies,
            reachable=reachable,
            views=views,
            bus=bus,
            clock=clock,
            delivered=RaiseDelivered(notifications, base.tenant_events),
        ),
    )


def _completing(base: Foundation, push: PushDirectory) -> CompleteBroadcast:
    raise_delivered = RaiseBroadcastDelivered(base.tenant_events)
    return CompleteBroadcast(push, base.start_job, raise_delivered)


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
        scheduled=base.store.scheduled_notifications,
        due=base.store.due,
        escalations=base.store.escalations,
        users=base.store.users,
        texts=texts,
        views=views,
        append_broadcast=append_broadcast,
        vault=base.vault,
        bus=base.bus,
        clock=base.clock,
        chance=base.chance,
    )


def make_late_delivery(base: Foundation, inbox: InboxVerbs) -> DeliverLate:
    """Make the part that delivers scheduled notifications."""
    post = inbox.post
    return DeliverLate(
        configs=inbox.configs,
        settings=inbox.settings,
        notifications=base.store.notifications,
        scheduled=base.store.scheduled_notifications,
        jobs=base.jobs,
        deliver=inbox.deliver,
        users=base.store.users,
        texts=post.texts,
        views=inbox.views,
        append_broadcast=post.append_broadcast,
        bus=base.bus,
        clock=base.clock,
        chance=base.chance,
    )


def _scheduling(base: Foundation, bans: Bans) -> Scheduling:
    store, vault = base.store, base.vault
    files = ReserveUploads(store.uploads, base.clock)
    return Scheduling(
        base.appender, store.scheduled, store.due, vault, vault.cursors, files, base.clock, bans
    )


def _reporting(base: Foundation) -> MakeReport:
    store = base.store
    return MakeReport(
        store.reports,
        store.log,
        store.uploads,
        store.users,
        base.vault,
        store.budgets,
        base.tenant_events,
        base.clock,
        base.chance,
    )


def make_chat_verbs(
    base: Foundation, inbox: InboxVerbs, receipts: CoalescedReceipts, blocks: BlockLists, bans: Bans
) -> ChatVerbs:
    """Make the verbs for chats."""
    store, vault, bus, clock = base.store, base.vault, base.bus, base.clock
    log, chats, users, appender = store.log, store.chats, store.users, base.appender
    strangers = StrangerBudget(chats, store.budgets, clock, is_counting=base.has_limits)
    invitations = Invitations(store.invites, inbox.settings.invites, bus, clock)
    removing = Removing(appender, store.invites, clock)
    remove_member = RemoveMember(removing)
    remove_as_tenant, redact_as_tenant = RemoveAsTenant(removing), RedactAsTenant(appender, log)
    reports = ReadReports(store.reports, store.tenants, vault, vault.cursors, clock)
    ban = BanUser(users, bans, clock)
    count = UnreadCounter(store.receipts, vault, clock, blocks)
    create = _creating(base, strangers, invitations, blocks)
    return ChatVerbs(
        create=create,
        create_as_tenant=CreateAsTenant(create),
        list=ListChats(chats, base.profiles, vault, vault.cursors, clock, blocks, receipts),
        list_as_tenant=ListTenantChats(store.tenants, users, chats, vault.cursors),
        get=GetChat(chats, base.profiles, vault, clock, blocks, receipts),
        mute=Mute(chats, bus),
        put_member=PutMember(appender, users, strangers, invitations, blocks),
        remove_member=remove_member,
        leave=LeaveChats(remove_member),
        invites=ListInvites(store.invites, clock),
        accept_invite=AcceptInvite(store.invites, chats, appender, clock),
        decline_invite=DeclineInvite(store.invites, clock),
        remove_as_tenant=remove_as_tenant,
        delete=DeleteChat(appender, store.deletions, Erasures(store.ledger, clock)),
        change_settings=ChangeSettings(appender, log),
        rename=Rename(appender),
        members=ListMembers(chats, store.receipts, base.profiles, blocks),
        inspect=_inspecting(base),
        post=_sending(base, bans),
        scheduling=_scheduling(base, bans),
        read=ReadPage(log, vault, clock, blocks),
        edit=Edit(appender, log, vault, clock, base.hooks),
        redact=Redact(appender, log),
        redact_as_tenant=redact_as_tenant,
        react=React(appender, log),
        reactions=ListReactions(log),
        pin=Pin(appender, log),
        mentions=ListMentions(log, vault, vault.cursors, clock, blocks),
        search=Search(
            log, chats, vault, vault.cursors, clock, blocks, store.search_index, base.indexer.note
        ),
        receipts=ListReceipts(store.receipts, blocks),
        message_receipts=ListMessageReceipts(log, store.receipts, vault.cursors, clock, blocks),
        mark=MarkReceipt(store.receipts, receipts, count, bus, clock),
        mark_unread=MarkUnread(store.receipts, receipts, count, bus),
        hide=HideChat(store.receipts, bus),
        count_unread=count,
        count_total=CountTotal(chats, receipts, count, inbox.inboxes, inbox.unread, clock),
        block=BlockUser(store.blocks, blocks, users, chats, store.receipts, bus, clock),
        blocks=ListBlocks(store.blocks),
        report=_reporting(base),
        reports=reports,
        change_report=ChangeReport(reports, redact_as_tenant, remove_as_tenant, ban),
    )


def _sending(base: Foundation, bans: Bans) -> Post:
    return Post(
        base.appender,
        base.store.log,
        base.vault,
        base.clock,
        base.quotas,
        base.retention,
        base.hooks,
        base.send_queues,
        bans,
        base.store.uploads,
    )


def _inspecting(base: Foundation) -> InspectChat:
    store = base.store
    return InspectChat(
        store.log,
        ReadPage(store.log, base.vault, base.clock, NoBlocks()),
        ListMembers(store.chats, store.receipts, base.profiles, NoBlocks()),
    )


def _creating(
    base: Foundation, strangers: StrangerBudget, invitations: Invitations, blocks: BlockLists
) -> CreateChat:
    store = base.store
    return CreateChat(
        store.chats,
        store.users,
        base.vault,
        base.bus,
        base.clock,
        base.chance,
        strangers,
        invitations,
        NewDirectChats(store.blocks, blocks, store.receipts),
        store.log,
        base.quotas,
    )


def make_file_verbs(
    base: Foundation,
    chats: ChatVerbs,
    blobs: Blobs,
    deletions: ByteDeletions,
    bytes_max: int | None,
    credential_status: CredentialStatus,
) -> FileVerbs:
    """Make the verbs for attachments; without a largest size, nothing can be uploaded."""
    store, vault, clock, chance = base.store, base.vault, base.clock, base.chance
    uploads, transfers = store.uploads, Transfers()
    find = FindUpload(uploads, vault, clock)
    rules = AttachmentRules(store.inbox_settings, clock, bytes_max)
    reading = ReadAttachment(
        chats.read, uploads, blobs, clock, chance, transfers, credential_status
    )
    return FileVerbs(
        create=CreateUpload(uploads, vault, rules, base.quotas, clock, chance),
        find=find,
        receive=ReceiveBytes(find, uploads, blobs, chance, transfers),
        put_thumbnail=PutThumbnail(find, uploads, blobs, vault, rules, base.quotas, chance),
        read=reading,
        read_own=ReadOwnFile(reading, store.log, vault, clock),
        read_reported=ReadReportedFile(reading, chats.reports),
        sweep=SweepAttachments(uploads, blobs, store.log, store.scheduled, vault, clock, deletions),
        cursors=vault.cursors,
    )
