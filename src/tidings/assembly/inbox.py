# SPDX-License-Identifier: Apache-2.0
"""The verbs of inboxes over a store and a queue of jobs."""

from tidings.actions.inbox.announcing import Announcer
from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.message_schemas import MessageSchemas
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.reading import CountUnread, ListNotifications, MarkRead
from tidings.actions.inbox.redacting import FindNotification, GetProgress, RedactNotification
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import NotificationTexts, Showing
from tidings.actions.inbox.verbs import InboxVerbs
from tidings.actions.vault import Vault
from tidings.buses.in_process import InProcessBus
from tidings.checkers.process import ProcessChecker
from tidings.ports.jobs import Jobs
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock
from tidings.world import back_off


def make_inbox_verbs(
    store: Store, jobs: Jobs, vault: Vault, bus: InProcessBus, clock: Clock, chance: Chance
) -> InboxVerbs:
    """All that can be done with inboxes; what is posted to listed users goes through the queue."""
    notifications, copies = store.notifications, store.copies
    settings = Settings(store.inbox_settings, store.tenants)
    configs = InboxConfigs(store.inbox_settings, store.tenants)
    texts = NotificationTexts(vault)
    views = LogViews(notifications, clock)
    showing = Showing(notifications, store.users, views, texts, clock)
    announce = Announcer(notifications, views, clock, back_off)
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
