# SPDX-License-Identifier: Apache-2.0
"""Refusals of push, with stable codes, as in `model.refusals`."""

from tidings.model.refusals import Conflict, Forbidden, Unavailable


class ProviderMissing(Forbidden):
    """The packages that a provider of push needs are not installed on this server."""

    code, title = "push.not_installed", "This server cannot send notices with this provider"


class PushOff(Conflict):
    """The tenant has not configured this provider of push."""

    code, title = "push.off", "The tenant does not use this provider of push"


class PushBusy(Unavailable):
    """The push settings were changed by other requests at the same time."""

    code, title = "push.busy", "The push settings are being changed"
