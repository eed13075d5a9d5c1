# SPDX-License-Identifier: Apache-2.0
"""The requester of a store call: the tenant and user by which the store's scheduler is fair.

The requester is in a context variable, so that no port has to pass it on. It is set where the
caller becomes known, and applies to everything that the same task does afterwards. Tasks that serve
everybody start without a requester: their calls are background work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from tidings.model.ids import UserKey, tenant_of

Lane = Literal["users", "credentials", "revocations"]
"""Class of store calls with connections of its own: users' requests, however many, never block
the lookup of credentials or the reading of revocations."""


class Requester(NamedTuple):
    """Tenant and user that a store call serves: tenants take turns, and within them their users."""

    tenant: str
    """Empty for the deployment itself."""
    user: str = ""
    """Empty for the tenant itself, which uses one of its keys."""
    lane: Lane = "users"


BACKGROUND: Final = Requester("")
"""Requester of work that no user waits for, such as delivery and sweeping."""
OPERATOR: Final = Requester("", "operator")
REVOCATIONS: Final = Requester("", "", "revocations")

_current: Final = ContextVar("requester", default=BACKGROUND)

current_requester: Final = _current.get
"""Returns the requester of the current task; `BACKGROUND` unless it was set."""


def set_requester(requester: Requester) -> None:
    """Set the requester of all later store calls of this task."""
    _current.set(requester)


@contextmanager
def on_behalf_of(requester: Requester) -> Iterator[None]:
    """Set the requester of the store calls within the body."""
    before = _current.set(requester)
    try:
        yield
    finally:
        _current.reset(before)


def user_requester(user: UserKey) -> Requester:
    """Return the requester for a user."""
    return Requester(tenant_of(user), user)


def unknown_requester(address: str | None) -> Requester:
    """Return the requester for a caller whose credentials are not checked yet, by address."""
    return Requester(address or "", "", "credentials")
