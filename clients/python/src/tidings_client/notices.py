# SPDX-License-Identifier: Apache-2.0
"""Convert frames without a sequence to events, of which only the latest of each kind matters."""

from collections.abc import Hashable

import msgspec

from tidings_client.events import (
    ChatChanged,
    Event,
    Invited,
    Presence,
    ProfileChanged,
    ReceiptMoved,
    ScheduledFailed,
    Typing,
    UnreadChanged,
    UnreadTotalChanged,
)
from tidings_client.frames import (
    ChatChangedFrame,
    InboxMissedFrame,
    InvitedFrame,
    MarkedFrame,
    PresenceFrame,
    ProfileFrame,
    ReceiptFrame,
    ScheduledFailedFrame,
    ServerFrame,
    TypingNotice,
    UnreadFrame,
    UnreadTotalFrame,
)
from tidings_client.notifications import InboxMissed, InboxStateChanged, InboxUnreadChanged


def notice_of(frame: ServerFrame) -> tuple[Event, Hashable] | None:
    """Return the event for a frame, and a key; a later event with the same key replaces it."""
    match frame:
        case ReceiptFrame(chat=chat, user=user):
            moved = ReceiptMoved(chat=chat, user=user, delivered=frame.delivered, read=frame.read)
            return moved, ("receipt", chat, user)
        case TypingNotice(chat=chat, user=user):
            return Typing(chat=chat, user=user), ("typing", chat, user)
        case PresenceFrame(user=user):
            came = Presence(user=user, online=frame.online, last_seen=frame.last_seen)
            return came, ("presence", user)
        case ProfileFrame(user=user, display_name=name, avatar_url=avatar):
            changed = ProfileChanged(user=user, display_name=name, avatar_url=avatar)
            return changed, ("profile", user)
        case UnreadFrame(inbox=str(inbox)):
            count = InboxUnreadChanged(
                inbox=inbox,
                total=frame.total,
                categories=frame.categories,
                exact=frame.exact,
                unseen=frame.unseen,
            )
            return count, ("unread in inbox", inbox)
        case InboxMissedFrame(inbox=inbox):
            missed = InboxMissed(inbox=inbox, count=frame.count, exact=frame.exact)
            return missed, ("missed in inbox", inbox)
        case MarkedFrame():
            state = InboxStateChanged(**msgspec.structs.asdict(frame))
            return state, ("inbox state", state)
        case UnreadFrame(chat=str(chat)):
            left = UnreadChanged(
                chat=chat,
                unread=frame.unread,
                exact=frame.unread_exact,
                mentions=frame.unread_mentions,
            )
            return left, ("unread", chat)
        case UnreadTotalFrame():
            return UnreadTotalChanged(**msgspec.structs.asdict(frame)), ("unread total",)
        case ChatChangedFrame(chat=chat):
            return ChatChanged(chat=chat), ("chat changed", chat or "")
        case ScheduledFailedFrame(scheduled_id=name, chat=chat, code=code) if name:
            return ScheduledFailed(chat=chat, scheduled_id=name, code=code), ("scheduled", name)
        case InvitedFrame(chat=chat, user=user):
            return Invited(chat=chat, user=user), ("invited", chat)
        case _:
            return None
