# SPDX-License-Identifier: Apache-2.0
"""Compose e-mails about unread notifications, each with a link to unsubscribe."""

from hashlib import sha256
from html import escape
from typing import Final

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.inbox.showing import OpenedNotification
from tidings.model.emails import Email, one_line
from tidings.model.ids import UserKey
from tidings.model.notifications import InboxConfig
from tidings.model.refusals import CursorInvalid

PATH: Final = "/v1/unsubscribe/"
SENDER_CHARS_MAX: Final = 100
_PURPOSE: Final = "unsubscribe"
_ANYBODY: Final = UserKey("")
"""The user of all links. A cursor is bound to one user, but nobody is logged in when a link is
used. The content of the link names its user instead."""


class EmailSubscription(msgspec.Struct, frozen=True, array_like=True):
    """What a link to unsubscribe ends: e-mails to a user about a category of an inbox."""

    user: UserKey
    inbox: str
    category: str | None


class UnsubscribeLinks(msgspec.Struct, frozen=True):
    """Makes links to unsubscribe, and reads them. They are encrypted and do not expire."""

    cursors: Cursors

    def make(self, public_url: str, subscription: EmailSubscription) -> str:
        """Return the address at which a user unsubscribes."""
        payload = msgspec.json.encode(subscription)
        return f"{public_url.rstrip('/')}{PATH}{self.cursors.seal(_PURPOSE, _ANYBODY, payload)}"

    def read(self, token: str) -> EmailSubscription:
        """Return the subscription that a link ends; `token` is the last part of its address.

        Raises:
            CursorInvalid: This deployment did not make the address.
        """
        payload = self.cursors.open(_PURPOSE, _ANYBODY, token)
        try:
            return msgspec.json.decode(payload, type=EmailSubscription)
        except msgspec.MsgspecError:
            raise CursorInvalid from None


class ComposeEmail(msgspec.Struct, frozen=True):
    """Composes e-mails. Nothing of a notification gets into a header, except its title."""

    links: UnsubscribeLinks
    public_url: str | None
    """Address at which users reach the API."""

    def __call__(
        self,
        user: UserKey,
        address: str,
        inbox: str,
        config: InboxConfig,
        shown: OpenedNotification,
    ) -> Email:
        """Return the e-mail to a user about a notification, as it is now."""
        message = shown.text.message
        title, body, link = (message.get(name) for name in ("title", "body", "cta_uri"))
        parts = [str(title), str(body), str(link or "")]
        url = self._unsubscribe_url(user, inbox, config, shown.category)
        return Email(
            recipient=address,
            sender_name=one_line(config.title, SENDER_CHARS_MAX),
            subject=one_line(str(title)),
            text=_text(parts, config.title, url),
            html=_page(parts, config.title, url),
            message_id=f"{shown.notification_id}.{sha256(user.encode()).hexdigest()[:16]}",
            unsubscribe_url=url,
        )

    def _unsubscribe_url(
        self, user: UserKey, inbox: str, config: InboxConfig, category: str | None
    ) -> str | None:
        rule = (config.category_rules or {}).get(category or "")
        is_required = rule is not None and rule.required
        if is_required or self.public_url is None:
            return None
        return self.links.make(self.public_url, EmailSubscription(user, inbox, category))


def _text(parts: list[str], inbox: str, url: str | None) -> str:
    why = f"You get this e-mail because you have not read this notification in {one_line(inbox)}."
    end = [] if url is None else [f"Unsubscribe: {url}"]
    return "\n\n".join([*filter(None, parts), "-- ", why, *end]) + "\n"


def _page(parts: list[str], inbox: str, url: str | None) -> str:
    title, body, link = (escape(part) for part in parts)
    why = f"You get this e-mail because you have not read this notification in {escape(inbox)}."
    # Links of other schemes belong to apps, and mail programs do not open them.
    more = f'<p><a href="{link}">{link}</a></p>' if link.startswith("https://") else ""
    end = "" if url is None else f' <a href="{escape(url)}">Unsubscribe</a>'
    lines = "<br>\n".join(body.splitlines())
    return (
        f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body><h1>{title}</h1>\n<p>{lines}</p>\n{more}\n<hr>\n<p><small>{why}{end}</small></p>\n"
        "</body></html>\n"
    )
