# SPDX-License-Identifier: Apache-2.0
"""Operations to unsubscribe from e-mails, without a login. Mail programs do this with one click, as
RFC 8058 describes."""

from typing import Final

from tidings.actions.inbox.composing import PATH
from tidings.actions.verbs import InboxVerbs
from tidings.api.operations import Answer, operation
from tidings.model.outgoing_refusals import UnsubscribeLinkUnknown
from tidings.model.preferences import PreferencesRequired
from tidings.model.refusals import StoreUnavailable

TAG: Final = "Inbox"
HTML: Final = "text/html"
_PATH: Final = PATH + "{link}"
_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Unsubscribe</title>
<meta name="viewport" content="width=device-width"></head>
<body><main><h1>Unsubscribe</h1>
{content}
</main></body></html>
"""
_QUESTION: Final = """<p>Do you want no more e-mails about unread notifications of this kind?</p>
<form method="post"><button>Unsubscribe</button></form>"""
_DONE: Final = """<p>You get no more e-mails about unread notifications of this kind. You find the
notifications in your inbox, where you can also change your preferences.</p>"""


@operation(
    "GET",
    _PATH,
    tag=TAG,
    summary="Ask before unsubscribing from e-mails",
    key=None,
    media_type=HTML,
    refusals=(UnsubscribeLinkUnknown,),
)
async def show_unsubscribe(link: str, inbox_verbs: InboxVerbs) -> Answer[str]:
    """Return a page with a button that unsubscribes. Opening the page changes nothing, because
    programs open links in e-mails too."""
    inbox_verbs.unsubscribe.check(link)
    return Answer(_PAGE.format(content=_QUESTION), headers=_HEADERS)


@operation(
    "POST",
    _PATH,
    tag=TAG,
    summary="Unsubscribe from e-mails",
    key=None,
    media_type=HTML,
    refusals=(UnsubscribeLinkUnknown, PreferencesRequired, StoreUnavailable),
)
async def unsubscribe(link: str, inbox_verbs: InboxVerbs) -> Answer[str]:
    """Switch off e-mails about the category of the notification from whose e-mail the link comes,
    for the user who got it. A body, such as `List-Unsubscribe=One-Click`, is not needed. A repeat
    changes nothing."""
    await inbox_verbs.unsubscribe(link)
    return Answer(_PAGE.format(content=_DONE), headers=_HEADERS)


OPERATIONS: Final = (show_unsubscribe, unsubscribe)
