# SPDX-License-Identifier: Apache-2.0
"""Typed bundles of the verbs for chats, logins and inboxes, used by the API and the gateway."""

import msgspec

from tidings.actions.attachments.downloading import ReadAttachment
from tidings.actions.attachments.own_files import ReadOwnFile
from tidings.actions.attachments.reported_files import ReadReportedFile
from tidings.actions.attachments.sweeping import SweepAttachments
from tidings.actions.attachments.uploading import (
    CreateUpload,
    FindUpload,
    PutThumbnail,
    ReceiveBytes,
)
from tidings.actions.chat.as_tenant import CreateAsTenant
from tidings.actions.chat.chat_settings import ChangeSettings
from tidings.actions.chat.chats import CreateChat, GetChat, ListChats, ListTenantChats, Mute
from tidings.actions.chat.deleting import DeleteChat
from tidings.actions.chat.inspecting import InspectChat
from tidings.actions.chat.invites import AcceptInvite, DeclineInvite, ListInvites
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
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import BlockUser, ListBlocks
from tidings.actions.identity.logins import RequestCode
from tidings.actions.identity.profiles import FindContacts
from tidings.actions.identity.refreshing import RefreshSession
from tidings.actions.identity.sessions import (
    ListDevices,
    ListSessions,
    OpenSession,
    RevokeSession,
    RevokeSessions,
)
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.counting import CountUnread
from tidings.actions.inbox.delivering import DeliverCopies
from tidings.actions.inbox.marking import MarkRead
from tidings.actions.inbox.posted import GetProgress, ListPosted, RetractNotification
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.preferences import OwnPreferences, Reachable
from tidings.actions.inbox.reading import ListNotifications
from tidings.actions.inbox.settings import InboxConfigs, ListInboxes, Settings
from tidings.actions.inbox.showing import NotificationReader
from tidings.actions.inbox.states import ActOnNotification, ChangeStates
from tidings.actions.inbox.unsubscribing import Unsubscribe
from tidings.actions.jobs.deleting_users import DeleteUser
from tidings.actions.jobs.receipts import ErasureReceipts
from tidings.actions.jobs.starting import GetJob
from tidings.actions.jobs.tenant_deletion import DeleteInbox, DeleteTenant
from tidings.actions.search.searching import Search
from tidings.actions.webhooks.configuring import ConfigureWebhooks
from tidings.actions.webhooks.deliveries import WebhookDeliveries
from tidings.actions.webhooks.pulling import PullEvents


class ChatVerbs(msgspec.Struct, frozen=True):
    """The verbs for chats."""

    create: CreateChat
    create_as_tenant: CreateAsTenant
    list: ListChats
    list_as_tenant: ListTenantChats
    get: GetChat
    mute: Mute
    put_member: PutMember
    remove_member: RemoveMember
    leave: LeaveChats
    invites: ListInvites
    accept_invite: AcceptInvite
    decline_invite: DeclineInvite
    remove_as_tenant: RemoveAsTenant
    delete: DeleteChat
    change_settings: ChangeSettings
    rename: Rename
    members: ListMembers
    inspect: InspectChat
    post: Post
    scheduling: Scheduling
    read: ReadPage
    edit: Edit
    redact: Redact
    redact_as_tenant: RedactAsTenant
    react: React
    reactions: ListReactions
    pin: Pin
    mentions: ListMentions
    search: Search
    receipts: ListReceipts
    message_receipts: ListMessageReceipts
    mark: MarkReceipt
    mark_unread: MarkUnread
    hide: HideChat
    count_unread: UnreadCounter
    count_total: CountTotal
    block: BlockUser
    blocks: ListBlocks
    report: MakeReport
    reports: ReadReports
    change_report: ChangeReport


class FileVerbs(msgspec.Struct, frozen=True):
    """The verbs for uploads and attachments, and the object that makes links."""

    create: CreateUpload
    find: FindUpload
    receive: ReceiveBytes
    put_thumbnail: PutThumbnail
    read: ReadAttachment
    read_own: ReadOwnFile
    read_reported: ReadReportedFile
    sweep: SweepAttachments
    cursors: Cursors


class JobVerbs(msgspec.Struct, frozen=True):
    """The verbs for a tenant's jobs, and for the keys that sign receipts."""

    get: GetJob
    delete_user: DeleteUser
    delete_inbox: DeleteInbox
    delete_tenant: DeleteTenant
    receipts: ErasureReceipts


class WebhookVerbs(msgspec.Struct, frozen=True):
    """The verbs for webhook endpoints, and for deliveries to them."""

    configure: ConfigureWebhooks
    deliveries: WebhookDeliveries
    pull: PullEvents


class LoginVerbs(msgspec.Struct, frozen=True):
    """The verbs for logging in, sessions and contacts."""

    request_code: RequestCode
    open_session: OpenSession
    refresh: RefreshSession
    sessions: ListSessions
    devices: ListDevices
    revoke_session: RevokeSession
    revoke_sessions: RevokeSessions
    find_contacts: FindContacts


class InboxVerbs(msgspec.Struct, frozen=True):
    """The verbs for inboxes, and the objects with which delivery reads a notification (`views`,
    `showing`), finds out whom it may reach (`reachable`), and stores copies (`deliver`)."""

    settings: Settings
    configs: InboxConfigs
    inboxes: ListInboxes
    posted: ListPosted
    post: PostNotification
    progress: GetProgress
    redact: RetractNotification
    list: ListNotifications
    read: MarkRead
    states: ChangeStates
    act: ActOnNotification
    unread: CountUnread
    preferences: OwnPreferences
    unsubscribe: Unsubscribe
    views: LogViews
    showing: NotificationReader
    reachable: Reachable
    deliver: DeliverCopies
