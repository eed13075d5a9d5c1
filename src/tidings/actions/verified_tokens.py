# SPDX-License-Identifier: Apache-2.0
"""Tokens that were found good, until they expire or the feed names what they stand on."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from tidings.actions.ended import Ended
from tidings.actions.identity import UserCaller
from tidings.ports.revocations import Revocation

VERIFIED_TOKENS_MAX: Final = 50_000
USER_TOKENS_MAX: Final = 100
"""Of one user; who has more is looked up more often, and takes no room from the others."""

Tokens = dict[bytes, None]
"""A set that remembers which came first."""


class VerifiedTokens:
    """Who calls with a token, by its digest; a bounded number, of which the oldest go first."""

    def __init__(self) -> None:
        self._callers: OrderedDict[bytes, UserCaller] = OrderedDict()
        self._of: dict[str, Tokens] = {}
        """The tokens of each user and of each session: people log out all the time, and looking
        through all tokens for each would hold everyone up. Names of the two are never alike."""

    def __len__(self) -> int:
        return len(self._callers)

    def get(self, digest: bytes) -> UserCaller | None:
        """Who calls with this token, if it was seen before."""
        return self._callers.get(digest)

    def keep(self, digest: bytes, caller: UserCaller) -> None:
        """Remember a token."""
        self.forget(digest)
        self._callers[digest] = caller
        for name in _names(caller):
            self._of.setdefault(name, {})[digest] = None
        if len(own := self._of[caller.user]) > USER_TOKENS_MAX:
            self.forget(next(iter(own)))
        while len(self._callers) > VERIFIED_TOKENS_MAX:
            self.forget(next(iter(self._callers)))

    def forget(self, digest: bytes) -> None:
        """Look at it as if it had not been seen."""
        caller = self._callers.pop(digest, None)
        if caller is None:
            return
        for name in _names(caller):
            own = self._of[name]
            del own[digest]
            if not own:
                del self._of[name]

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Forget every token that these may be about: the store says whether it still counts."""
        ended = Ended(revocations)
        names: Iterable[str] = (*ended.users, *ended.sessions)
        for name in names:
            for digest in list(self._of.get(name, ())):
                self.forget(digest)
        if ended.is_wide:
            for digest in [key for key, one in self._callers.items() if ended.concerns(one)]:
                self.forget(digest)


def _names(caller: UserCaller) -> tuple[str, ...]:
    return (caller.user,) if caller.session is None else (caller.user, caller.session)
