# SPDX-License-Identifier: Apache-2.0
"""Refusals of notifications, push and webhooks, with stable codes, as in `model.refusals`."""

from tidings.model.refusals import Conflict, Forbidden, NotFound, Unavailable


class ActionNotFound(NotFound):
    """The notification has no such action."""

    code, title = "action.not_found", "No such action"


class UnsubscribeLinkUnknown(NotFound):
    """This deployment did not make the link to unsubscribe, or it was changed."""

    code, title = "unsubscribe.unknown", "This link to unsubscribe is not valid"


class ProviderMissing(Forbidden):
    """The packages that a provider of push needs are not installed on this server."""

    code, title = "push.not_installed", "This server cannot send notices with this provider"


class PushOff(Conflict):
    """The tenant has not configured this provider of push."""

    code, title = "push.off", "The tenant does not use this provider of push"


class PushBusy(Unavailable):
    """The push settings were changed by other requests at the same time."""

    code, title = "push.busy", "The push settings are being changed"


class WebhookNotFound(NotFound):
    """The tenant has no webhook endpoint with this id."""

    code, title = "webhook.not_found", "No such webhook endpoint"


class WebhookDeliveryNotFound(NotFound):
    """There is no event with this id, or the endpoint does not get such events."""

    code, title = "webhook.delivery_not_found", "No such event"


class WebhookBusy(Unavailable):
    """The endpoint was changed by other requests at the same time."""

    code, title = "webhook.busy", "The endpoint is being changed"
