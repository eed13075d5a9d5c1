# SPDX-License-Identifier: Apache-2.0
"""All that can be done with inboxes, in one typed bundle for the API and for delivery."""

from dataclasses import dataclass

from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.posting import PostNotification
from tidings.actions.inbox.reading import CountUnread, ListNotifications, MarkRead
from tidings.actions.inbox.redacting import GetProgress, RedactNotification
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import Showing


@dataclass(frozen=True, slots=True)
class InboxVerbs:
    """The verbs of inboxes, and what delivery looks at before it shows something."""

    settings: Settings
    configs: InboxConfigs
    post: PostNotification
    progress: GetProgress
    redact: RedactNotification
    list: ListNotifications
    read: MarkRead
    unread: CountUnread
    views: LogViews
    showing: Showing
