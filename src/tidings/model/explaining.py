# SPDX-License-Identifier: Apache-2.0
"""The answer to the question what became of a message on its way to a user: a verdict and a
timeline."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar, get_args

import msgspec

Code = Literal[
    "never_accepted",
    "repeat",
    "own_message",
    "not_member",
    "chat_deleted",
    "removed",
    "redacted",
    "retracted",
    "expired",
    "erased",
    "blocked",
    "restored",
    "failed",
    "scheduled",
    "unwanted",
    "queued",
    "not_addressed",
    "read",
    "collapsed",
    "archived",
    "snoozed",
    "escalated",
    "acknowledged",
    "deactivated",
    "never_connected",
    "offline",
    "resync_not_fetched",
    "window_full",
    "socket_full",
    "written",
    "fetched",
    "before_connection",
    "not_followed",
    "not_dispatched",
    "behind",
    "unread",
    "unknown",
]

MEANINGS: Final[Mapping[Code, str]] = {
    "never_accepted": "The server has no such message. If a `request_id` was given and the refusal "
    "of this request is still known, the timeline has it.",
    "repeat": "The request with this `request_id` repeated an earlier one, so it made no second "
    "message. The timeline names the message of the first.",
    "own_message": "The user is the sender of the message.",
    "not_member": "The user was not a member of the chat when the message was sent. A user who "
    "joined later sees it in the history only.",
    "chat_deleted": "The chat was deleted.",
    "removed": "The user left the chat, or was removed, after the message was sent. Receipts end "
    "with the membership, so whether the message arrived before is not known.",
    "redacted": "The content of the message was removed.",
    "retracted": "The notification was retracted.",
    "expired": "The lifetime of the message or notification has ended.",
    "erased": "The content was erased together with the sender's other content.",
    "blocked": "The user blocks the sender. The message has no content for the user, is not unread "
    "and causes no push.",
    "restored": "The notification was due before its backup was restored. It is not delivered.",
    "failed": "The delivery of the notification at its time was given up, so the user has no copy.",
    "scheduled": "The notification has a time of delivery, which the sentence names. Until then, "
    "nobody has it.",
    "unwanted": "The user's preferences, as they are now, leave its category out of the inbox. A "
    "broadcast is hidden for as long as they do. If the user has no copy, it is not known whether "
    "the notification was posted to this user.",
    "queued": "The notification has not been delivered to all its users yet, and this user has no "
    "copy.",
    "not_addressed": "The notification was not posted to this user.",
    "read": "The user has read it.",
    "collapsed": "Lists show a newer notification with the same `collapse_key` instead.",
    "archived": "The user has archived the notification without reading it.",
    "snoozed": "The user has snoozed the notification, and not read it. The sentence says until "
    "when.",
    "escalated": "The user has not read the notification, and an e-mail about it was decided: the "
    "event `notification.escalated` has its outcome. If the e-mail was only claimed, it is being "
    "sent, or the process that was sending it was killed.",
    "acknowledged": "A device of the user has confirmed the message with `received`, and the user "
    "has not read it.",
    "deactivated": "The user is deactivated and cannot connect.",
    "never_connected": "No device of the user has ever connected.",
    "offline": "The user has no connection, and no device has confirmed the message.",
    "resync_not_fetched": "The server asked the device to load the chat again (`resync`), and "
    "the device has fetched nothing of it on this connection.",
    "window_full": "The message waits until the device confirms earlier entries.",
    "socket_full": "The message waits because the device does not read from its socket.",
    "written": "The message was written to the device's socket, and the device has not confirmed "
    "it.",
    "fetched": "The device fetched the message, and has not confirmed it.",
    "before_connection": "The message is older than what the server sends on this connection: the "
    "device has it from before, or shows it as history only.",
    "not_followed": "The device receives only the heads of chats, and does not follow this chat.",
    "not_dispatched": "No worker has delivered the message yet.",
    "behind": "The device is connected, and the server is about to read the message for it.",
    "unread": "The notification is in the user's inbox, and the user has not read it.",
    "unknown": "What became of it is not kept.",
}
"""The meaning of each code, for the documentation."""

_UNCONFIRMED: Final = (
    "The app has it, and has not confirmed it. See whether it shows it, and sends `received`."
)
_UNDELIVERED: Final = "See whether a worker runs, and how much waits for it."
NEXT_STEPS: Final[Mapping[Code, str]] = {
    "never_accepted": "Ask with the `X-Request-Id` of the request that sent it. It may have been "
    "refused.",
    "not_member": "What was sent before a user joined is in the history of the chat.",
    "removed": "Add the user to the chat again, if this was a mistake.",
    "restored": "Post it again, if it is still wanted.",
    "failed": "Post it again, if it is still wanted. The log of the server has the reason.",
    "unwanted": "The user can switch the category on. If all users have to get it, declare it as "
    "required in the settings of the inbox.",
    "queued": _UNDELIVERED,
    "deactivated": "Activate the user, if this was a mistake.",
    "never_connected": "See whether the app has the address of this server, and gets a token.",
    "offline": "It arrives when a device connects. For the time until then, look at the steps of "
    "push.",
    "resync_not_fetched": "The app has to load the chat again after `resync`. See whether it does, "
    "and whether its requests fail.",
    "window_full": "The app does not confirm what it gets. See whether it sends `received`.",
    "socket_full": "The device has a slow network, or its app hangs.",
    "written": _UNCONFIRMED,
    "fetched": _UNCONFIRMED,
    "not_followed": "The app gets a list of chats, and the messages only of chats that it follows. "
    "See whether it follows this chat when the user opens it.",
    "not_dispatched": _UNDELIVERED,
    "behind": "Ask again in a moment.",
}
"""What somebody can do about a verdict, for codes that leave something to do."""

What = Literal[
    "refused",
    "repeated",
    "accepted",
    "edited",
    "redacted",
    "expired",
    "erased",
    "joined",
    "removed",
    "chat_deleted",
    "posted",
    "due",
    "retracted",
    "copied",
    "unwanted",
    "collapsed",
    "archived",
    "snoozed",
    "email_claimed",
    "escalated",
    "handed_to_gateway",
    "written_to_socket",
    "fetched",
    "window_full",
    "socket_full",
    "waiting_for_earlier",
    "resync_sent",
    "acknowledged",
    "read",
    "connected",
    "disconnected",
    "muted",
    "blocked",
    "deactivated",
    "push_waiting",
    "push_claimed",
    "pushed",
    "push_refused",
    "push_not_sent",
    "push_unknown",
    "push_device_removed",
    "push_skipped",
    "push_dropped",
    "push_failed",
    "push_off",
    "push_no_device",
]


class Moment(msgspec.Struct, frozen=True):
    """One step on the way, as far as its time and place are known."""

    what: What
    at: int | None = None
    where: str | None = None


class DeliveryVerdict(msgspec.Struct, frozen=True):
    """What became of the message, in one sentence."""

    code: Code
    sentence: str
    since: int | None = None
    """Since when the verdict holds; None if it is not known."""


class Explanation(msgspec.Struct, frozen=True):
    """A verdict and the steps that led to it."""

    verdict: DeliveryVerdict
    timeline: tuple[Moment, ...] = ()


Facts = TypeVar("Facts")
Rule = Callable[[Facts], DeliveryVerdict | None]
"""A rule looks at the facts, and returns a verdict or None."""


def first_verdict(rules: Iterable[Rule[Facts]], facts: Facts) -> DeliveryVerdict:
    """Return the verdict of the first rule that has one; the last one always has one."""
    verdicts = (rule(facts) for rule in rules)
    return next(verdict for verdict in verdicts if verdict is not None)


def connection_place(device: str | None, connection: str) -> str:
    """Return the place of a step on a connection."""
    return f"device {device or 'unknown'}, connection {connection}"


_WHOLE_SECONDS: Final[frozenset[What]] = frozenset({"acknowledged", "read"})
"""Steps whose times have no milliseconds."""
_ROUNDED_MS: Final = 999


def in_order(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Return the moments sorted by time; they must be given in the order of cause and effect.

    A moment without a time comes after all moments that were given before it. A time in whole
    seconds is treated as the end of its second.
    """
    latest = 0
    dated: list[tuple[int, Moment]] = []
    for moment in moments:
        at = latest if moment.at is None else moment.at
        if moment.what in _WHOLE_SECONDS and moment.at is not None:
            at += _ROUNDED_MS
        dated.append((at, moment))
        latest = max(latest, at)
    return tuple(moment for _, moment in sorted(dated, key=lambda pair: pair[0]))


assert MEANINGS.keys() == set(get_args(Code)), "every code has a meaning"
