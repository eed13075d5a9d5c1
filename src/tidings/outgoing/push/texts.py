# SPDX-License-Identifier: Apache-2.0
"""Writes notices as JSON that is not longer than a push service takes."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tidings.ports.push import PushNotice

_WITHOUT_CONTENT: Final = {"message": "New message", "notification": "New notification"}
"""What a phone shows if the tenant's notices have no content. An app can replace it."""
_encode: Final = msgspec.json.Encoder().encode
_CUT: Final = "…"


def fitting(
    notice: PushNotice, form: Callable[[PushNotice], Mapping[str, object]], most: int
) -> bytes | None:
    """Return the notice as JSON of at most this many bytes; None if it cannot be so short.

    A body that is too long is cut.
    """
    text = _encode(form(notice))
    while len(text) > most and notice.body:
        shorter = notice.body.removesuffix(_CUT)[: len(notice.body) // 2]
        notice = msgspec.structs.replace(notice, body=shorter + _CUT if shorter else None)
        text = _encode(form(notice))
    return text if len(text) <= most else None


def facts(notice: PushNotice) -> dict[str, str]:
    """Return what an app needs to know about a notice: texts by name."""
    known = {**notice.data, "kind": notice.kind, "collapse_key": notice.collapse_key}
    if notice.badge is not None:
        known["badge"] = str(notice.badge)
    return known


def alert_of(notice: PushNotice) -> dict[str, str]:
    """Return what a phone shows: title and body, or in general words that something is new."""
    shown = {"title": notice.title, "body": notice.body}
    given = {name: text for name, text in shown.items() if text is not None}
    return given or {"body": _WITHOUT_CONTENT.get(notice.kind, "Test")}


def aps_of(notice: PushNotice) -> Mapping[str, object]:
    """Return what a device of Apple shows; an extension of the app can replace it before."""
    aps: dict[str, object] = {"thread-id": notice.collapse_key}
    if notice.kind == "clear":
        aps["content-available"] = 1
    else:
        aps |= {"alert": alert_of(notice), "sound": "default", "mutable-content": 1}
    if notice.badge is not None:
        aps["badge"] = notice.badge
    return aps
