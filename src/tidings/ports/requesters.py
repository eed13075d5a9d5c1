# SPDX-License-Identifier: Apache-2.0
"""On whose behalf the store is asked: what its scheduler tells requests apart by.

It travels in a context variable, so that no port has to hand it on. It is set where the caller
becomes known, and holds for all that the same task does afterwards. Tasks that serve everybody
start without one: what they read is background work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from tidings.model.ids import UserKey, tenant_of

Lane = Literal["users", "credentials", "revocations"]
"""Each has connections of its own: however much users ask for, who they are can still be looked up,
and what was revoked can still be read."""


class Requester(NamedTuple):
    """Whose turn it is: tenants take turns, and within a tenant its users."""

    tenant: str
    """Empty: the deployment itself."""
    user: str = ""
    """Empty: the tenant itself, by one of its keys."""
    lane: Lane = "users"


BACKGROUND: Final = Requester("")
"""Work that nobody in particular waits for, such as delivery and clearing up."""
OPERATOR: Final = Requester("", "operator")
REVOCATIONS: Final = Requester("", "", "revocations")

_current: Final = ContextVar("requester", default=BACKGROUND)

current_requester: Final = _current.get
"""Who it is now; background work unless somebody said otherwise."""


def set_requester(requester: Requester) -> None:
    """Until it is set again, whatever this task asks of the store is asked on this behalf."""
    _current.set(requester)


@contextmanager
def on_behalf_of(requester: Requester) -> Iterator[None]:
    """Ask the store on somebody's behalf, for as long as this lasts."""
    before = _current.set(requester)
    try:
        yield
    finally:
        _current.reset(before)


def user_requester(user: UserKey) -> Requester:
    """A user."""
    return Requester(tenant_of(user), user)


def unknown_requester(address: str | None) -> Requester:
    """Somebody whose credentials are being checked: all that is known is the address."""
    return Requester(address or "", "", "credentials")
