# SPDX-License-Identifier: Apache-2.0
"""News of the feed, sorted by what they are about, so that one look at a credential tells."""

from collections.abc import Iterable

from tidings.actions.identity import UserCaller
from tidings.model.ids import UserKey, tenant_of
from tidings.ports.revocations import Revocation, RevokedKind


class Ended:
    """All that a few revocations put an end to."""

    def __init__(self, revocations: Iterable[Revocation]) -> None:
        self.users: dict[UserKey, int] = {}
        """With the moment up to which what they were given counts no more."""
        self.sessions: set[str] = set()
        self.tenants: set[str] = set()
        self.tenant_keys: set[str] = set()
        self.signing_keys: set[str] = set()
        self.data_keys: set[str] = set()
        """The authors whose keys are being destroyed."""
        subjects: dict[RevokedKind, set[str]] = {
            "session": self.sessions,
            "tenant": self.tenants,
            "tenant_key": self.tenant_keys,
            "signing_key": self.signing_keys,
            "data_key": self.data_keys,
        }
        for revocation in revocations:
            if revocation.kind == "user":
                user = UserKey(revocation.subject)
                self.users[user] = max(revocation.at, self.users.get(user, 0))
            elif (named := subjects.get(revocation.kind)) is not None:
                # A later version may tell of kinds that this one does not know.
                named.add(revocation.subject)

    @property
    def is_wide(self) -> bool:
        """Whether something ended on which the tokens of many users stand."""
        return bool(self.tenants or self.tenant_keys or self.signing_keys)

    def concerns(self, caller: UserCaller) -> bool:
        """Whether the caller's token ended with something other than the user's own tokens."""
        return (
            caller.session in self.sessions
            or caller.key_id in self.signing_keys
            or caller.made_by in self.tenant_keys
            or (bool(self.tenants) and tenant_of(caller.user) in self.tenants)
        )
