# SPDX-License-Identifier: Apache-2.0
"""Decide whether a user could be reached at all: deactivated, never connected, or offline."""

from tidings.model.explaining import DeliveryVerdict
from tidings.ports.journals import ConnectionProgress, FoundJournals
from tidings.ports.people import User


def open_connections(journals: FoundJournals) -> list[ConnectionProgress]:
    """Return the user's open connections in all gateways that answered."""
    return [one for gateway in journals.gateways for one in gateway.connections]


def absence(
    profile: User, journals: FoundJournals, *, was_active: bool, more: str = ""
) -> DeliveryVerdict | None:
    """Return why nothing can reach the user now; None if the user is connected.

    `was_active` is True if the user must have used the server before, even if it is not known when.
    `more` is added to the sentence about a user who has no connection.
    """
    if profile.deactivated_at is not None:
        return DeliveryVerdict("deactivated", "The user is deactivated.", profile.deactivated_at)
    if open_connections(journals):
        return None
    if not journals.is_certain:
        text = "Whether the user is connected is not known: a gateway or Redis did not answer."
        return DeliveryVerdict("unknown", text)
    seen = _last_seen(profile, journals)
    if seen is None and not was_active:
        text = f"No device of the user has ever connected.{more}"
        return DeliveryVerdict("never_connected", text)
    return DeliveryVerdict("offline", f"The user is offline, and has not received it.{more}", seen)


def _last_seen(profile: User, journals: FoundJournals) -> int | None:
    """Return when the user's last connection closed, from the journals or from the profile, which
    is written a moment later."""
    closed = [
        step.at
        for gateway in journals.gateways
        for step in gateway.steps
        if step.step == "disconnected"
    ]
    known = [] if profile.last_seen_at is None else [profile.last_seen_at]
    return max(closed + known, default=None)
