# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs of inboxes, and the parts that check credentials."""

from dataclasses import dataclass

from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Wrapping
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.reading import CountUnread, ListNotifications, MarkRead
from tidings.actions.inbox.redacting import FindNotification, GetProgress, RedactNotification
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import NotificationReader, NotificationTexts
from tidings.actions.verbs import InboxVerbs
from tidings.assembly.system import back_off
from tidings.buses.in_process import InProcessBus
from tidings.checkers.process import ProcessChecker
from tidings.ports.bus import Jobs
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock


@dataclass(frozen=True, slots=True)
class Identity:
    """Parts that cache credentials and share one watch, which reports revocations to them."""

    watch: RevocationWatch
    signing: SigningKeys
    own_keys: TenantIssuerKeys
    standings: CredentialStatus
    authenticate: Authenticate


def make_identity(
    root_key: str, store: Store, wrapping: Wrapping, quotas: TenantQuotas, clock: Clock
) -> Identity:
    """Return these parts, with a watch that is not started."""
    watch = RevocationWatch(store.revocations)
    signing = SigningKeys(store.tenants, wrapping, clock, watch)
    own_keys = TenantIssuerKeys(store.tenants, clock, watch)
    standings = CredentialStatus(store.tenants, store.users, store.sessions, clock, watch, quotas)
    authenticate = Authenticate(root_key, store.tenants, signing, own_keys, standings, watch, clock)
    return Identity(watch, signing, own_keys, standings, authenticate)


def make_inbox_verbs(
    store: Store, jobs: Jobs, vault: Vault, bus: InProcessBus, clock: Clock, chance: Chance
) -> InboxVerbs:
    """Return the verbs of inboxes; posts to listed users go through the queue."""
    notifications, copies = store.notifications, store.copies
    settings = Settings(store.inbox_settings, store.tenants)
    configs = InboxConfigs(store.inbox_settings, store.tenants)
    texts = NotificationTexts(vault)
    views = LogViews(notifications, clock)
    showing = NotificationReader(notifications, store.users, views, texts, clock)
    announce = BroadcastAppender(notifications, views, clock, back_off)
    find = FindNotification(configs, notifications, clock)
    unread = CountUnread(configs, copies, views, showing, clock)
    return InboxVerbs(
        settings=settings,
        configs=configs,
        post=PostNotification(
            configs=configs,
            settings=settings,
            schemas=MessageSchemas(ProcessChecker()),
            notifications=notifications,
            jobs=jobs,
            users=store.users,
            texts=texts,
            views=views,
            announce=announce,
            vault=vault,
            bus=bus,
            clock=clock,
            chance=chance,
        ),
        progress=GetProgress(find, notifications, views, texts),
        redact=RedactNotification(find, notifications, views, announce, bus, clock, chance),
        list=ListNotifications(configs, copies, views, showing, vault.cursors, clock),
        read=MarkRead(configs, copies, views, showing, bus, clock, unread),
        unread=unread,
        views=views,
        showing=showing,
    )
