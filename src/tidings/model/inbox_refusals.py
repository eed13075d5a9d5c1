# SPDX-License-Identifier: Apache-2.0
"""Refusals of what users do with notifications, with stable codes, as in `model.refusals`."""

from tidings.model.refusals import NotFound


class ActionNotFound(NotFound):
    """The notification has no such action."""

    code, title = "action.not_found", "No such action"


class UnsubscribeLinkUnknown(NotFound):
    """This deployment did not make the link to unsubscribe, or it was changed."""

    code, title = "unsubscribe.unknown", "This link to unsubscribe is not valid"
