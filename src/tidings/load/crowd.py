# SPDX-License-Identifier: Apache-2.0
"""A crowd: pairs of users, each with a live connection, made as they are needed."""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from tidings.load.people import TENANT, Pair, People
from tidings.load.rest import LoadStopped, Rest
from tidings.load.side_by_side import side_by_side
from tidings.load.talker import Talker, connect
from tidings.load.watch import Watch

CONNECTING_MAX: Final = 50
LIVE_SECONDS_MAX: Final = 60.0
SETTLING_SECONDS_MAX: Final = 30.0


class Crowd:
    """Pairs who talk to each other."""

    def __init__(
        self, url: str, root_key: str, tenant: str = TENANT, gateways: Sequence[str] = ()
    ) -> None:
        """Sockets go to the gateways in turn, so that the two of a pair meet across two of them."""
        self.watch = Watch()
        self._gateways = gateways or (url,)
        self._rest = Rest(url)
        self._people = People(self._rest, root_key, tenant)
        self._talkers: list[Talker] = []

    async def __aenter__(self) -> Self:
        try:
            await self._people.start()
        except BaseException:
            self._rest.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for talker in self._talkers:
            talker.close()
        self._rest.close()

    async def talkers(self, pairs: int) -> list[Talker]:
        """The two users of each of so many pairs, neighbours in the list, all live."""
        missing = range(len(self._talkers) // 2, pairs)
        self._talkers += await self._connected(await self._people.pairs(missing))
        return self._talkers[: 2 * pairs]

    async def settle(self, talkers: list[Talker]) -> int:
        """Wait for what is under way; returns how many acknowledged messages never arrived."""
        await self.watch.until(
            lambda: not _unanswered(talkers) and not _missing(talkers), SETTLING_SECONDS_MAX
        )
        return _missing(talkers)

    async def _connected(self, pairs: list[Pair]) -> list[Talker]:
        made = [
            Talker(pair.chat, user.token, f"load-{user.name}", self.watch.stopped)
            for pair in pairs
            for user in pair.users
        ]
        gateways = self._gateways
        await side_by_side(
            [connect(talker, gateways[n % len(gateways)]) for n, talker in enumerate(made)],
            CONNECTING_MAX,
        )
        if not await self.watch.until(
            lambda: all(talker.is_live for talker in made), LIVE_SECONDS_MAX
        ):
            raise LoadStopped(f"not everyone was live after {LIVE_SECONDS_MAX:.0f} seconds")
        return made


def _unanswered(talkers: list[Talker]) -> int:
    return sum(talker.unanswered for talker in talkers)


def _missing(talkers: list[Talker]) -> int:
    """What one of a pair was promised and the other has not got."""
    return sum(
        abs(one.acknowledged - other.delivered) + abs(other.acknowledged - one.delivered)
        for one, other in zip(talkers[::2], talkers[1::2], strict=True)
    )
