# SPDX-License-Identifier: Apache-2.0
"""Refusals of webhook endpoints, with stable codes, as in `model.refusals`."""

from tidings.model.refusals import NotFound, Unavailable


class WebhookNotFound(NotFound):
    """The tenant has no webhook endpoint with this id."""

    code, title = "webhook.not_found", "No such webhook endpoint"


class WebhookDeliveryNotFound(NotFound):
    """There is no event with this id, or the endpoint does not get such events."""

    code, title = "webhook.delivery_not_found", "No such event"


class WebhookBusy(Unavailable):
    """The endpoint was changed by other requests at the same time."""

    code, title = "webhook.busy", "The endpoint is being changed"
