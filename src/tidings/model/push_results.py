# SPDX-License-Identifier: Apache-2.0
"""What became of a push notice: the results that processes keep in memory, and their words."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from tidings.model.explaining import What
from tidings.model.push_rules import YOUNG_MS_MAX, Reason

AttemptResult = Literal["sent", "unknown", "refused", "not_sent", "gone", "ended", "outdated"]
"""How the notice to one device ended; see `ports.push.PushOutcome`. With `ended`, the session of
the device is over."""

PushResult = (
    AttemptResult
    | Reason
    | Literal[
        "no_device", "failed", "dropped", "claimed", "lost_claim", "waiting", "late", "unwanted",
        "off", "unregistered",
    ]
)  # fmt: skip
"""What is known about the push notices of a message or notification to one user."""

_LATE_SECONDS: Final = YOUNG_MS_MAX // 1_000

WORDS: Final[Mapping[PushResult, tuple[What, str]]] = {
    "sent": ("pushed", "A push notice was sent to {place}."),
    "unknown": ("push_unknown", "Whether a push notice reached {place} is not known: {reason}."),
    "refused": ("push_refused", "The push service refused the notice to {place}: {reason}."),
    "not_sent": ("push_not_sent", "The push notice to {place} was not sent: {reason}."),
    "gone": (
        "push_device_removed",
        "The push service does not know {place} any more, so its registration was removed.",
    ),
    "ended": (
        "push_device_removed",
        "The session of {place} is over, so its registration for push was removed.",
    ),
    "outdated": (
        "push_not_sent",
        "The push service asked to wait, and then there was nothing to notify of any more.",
    ),
    "no_device": (
        "push_not_sent",
        "No push notice was sent, because no device of the user was registered any more.",
    ),
    "failed": ("push_failed", "No push notice was sent, because the store did not answer."),
    "dropped": (
        "push_dropped",
        "A push notice was dropped: too many were waiting, or the push service was slow.",
    ),
    "claimed": ("push_claimed", "A push notice is being sent."),
    "lost_claim": (
        "push_claimed",
        "A push notice was claimed. What became of it is not kept: its process was killed or "
        "restarted, or it was too long ago.",
    ),
    "waiting": (
        "push_waiting",
        "A push notice waits until a device has had time to take the message, or for a burst.",
    ),
    "silent": ("push_skipped", "The message is silent, so no push notice was sent."),
    "muted": ("push_skipped", "No push notice was sent, because the chat was muted."),
    "quiet": ("push_skipped", "No push notice was sent, because of the user's quiet hours."),
    "unwanted": ("push_skipped", "No push notice was sent, because the user does not want any."),
    "taken": ("push_skipped", "No push notice was sent, because a device took the message."),
    "blocked": ("push_skipped", "No push notice was sent, because the user blocks the sender."),
    "content_gone": (
        "push_skipped",
        "No push notice was sent, because the content was gone or the sender blocked.",
    ),
    "not_claimed": (
        "push_skipped",
        "No push notice was sent, because the user had read the message, left the chat, or was "
        "notified already.",
    ),
    "late": (
        "push_skipped",
        f"No push notice was sent, because the message was more than {_LATE_SECONDS} seconds old.",
    ),
    "own": ("push_skipped", "The user sent the message."),
    "not_new": ("push_skipped", "The user joined the chat later."),
    "off": ("push_off", "The tenant uses no push service."),
    "unregistered": ("push_no_device", "No device of the user is registered for push."),
}
"""For each result, the step of the timeline and the sentence of the verdict. If there are several
results, the sentence of the first in this order is told."""

NOT_KEPT: Final = "Whether a push notice was sent is not kept."


def _names(kind: object) -> set[str]:
    """Return the texts of a `Literal` or of a union of them."""
    return {
        name for one in get_args(kind) for name in ([one] if isinstance(one, str) else _names(one))
    }


assert WORDS.keys() == _names(PushResult), "every result has words"
