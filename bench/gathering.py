# SPDX-License-Identifier: Apache-2.0
"""A large group whose members are all connected: a few of them send, the others only listen."""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from picows import WSListener

from tidings.tools.load_crowd import TENANT, People, Watch, side_by_side
from tidings.tools.load_runs import Latency, latency_of, merge_samples
from tidings.tools.load_talker import LoadStopped, Rest, Talker, connect

CONNECTING_MAX: Final = 50
LIVE_SECONDS_MAX: Final = 60.0
SETTLING_SECONDS_MAX: Final = 30.0


class Gathering:
    """A group and the sockets of its members."""

    def __init__(
        self,
        url: str,
        root_key: str,
        members: int,
        senders: int,
        gateways: Sequence[str] = (),
    ) -> None:
        """Create a gathering; the sockets are distributed over the gateways in turn."""
        self.watch = Watch()
        self._gateways = gateways or (url,)
        self._size = members
        self._senders = senders
        self._rest = Rest(url)
        self._people = People(self._rest, root_key, TENANT)
        self._members: list[Talker] = []

    async def __aenter__(self) -> Self:
        await self._people.start()
        users = await self._people.users(range(self._size))
        chat = await self._people.group(users)
        self._members = [
            Talker(chat, user.token, f"load-{user.name}", self.watch.stopped) for user in users
        ]
        sockets: list[WSListener] = list(self._members)
        gateways = self._gateways
        await side_by_side(
            [connect(member, gateways[n % len(gateways)]) for n, member in enumerate(sockets)],
            CONNECTING_MAX,
        )
        if not await self.watch.until(self._is_live, LIVE_SECONDS_MAX):
            raise LoadStopped("not everyone became live")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.close()
        self._rest.close()

    @property
    def sent(self) -> int:
        """Number of messages that were acknowledged as durable."""
        return sum(member.acknowledged for member in self._members)

    @property
    def delivered(self) -> int:
        """Number of deliveries to members other than the sender."""
        return sum(member.delivered for member in self._members)

    @property
    def refused(self) -> int:
        """Number of sends that were refused as retryable."""
        return sum(member.refused for member in self._members)

    def send(self, number: int) -> None:
        """Send one message from the sender whose turn it is."""
        self._members[number % self._senders].send()

    def give_up_when_refused(self) -> None:
        """Do not repeat sends that are refused as retryable."""
        for member in self._members:
            member.repeats = False

    def name_after(self) -> None:
        """Name in each send the last sequence that its sender has seen."""
        for member in self._members:
            member.names_after = True

    def start(self, window: int) -> None:
        """Make each sender keep this many sends unanswered."""
        for member in self._members[: self._senders]:
            member.start(window)

    async def all_answered(self) -> None:
        """Wait until every sender has got an answer; from then on the keys of all authors are
        cached."""
        senders = self._members[: self._senders]
        if not await self.watch.until(
            lambda: all(member.acknowledged for member in senders), LIVE_SECONDS_MAX
        ):
            raise LoadStopped("not everyone got an answer")

    def forget_latencies(self) -> None:
        """Discard the latencies that were measured so far."""
        for member in self._members:
            member.forget_latencies()

    def latency(self) -> Latency:
        """Return the time from a send to its answer."""
        return latency_of(merge_samples(member.latencies_ms for member in self._members))

    async def settle(self) -> int:
        """Stop sending, and wait for pending deliveries; return how many are missing."""
        for member in self._members:
            member.stop()
        await self.watch.until(lambda: not self._missing(), SETTLING_SECONDS_MAX)
        return self._missing()

    def _is_live(self) -> bool:
        return all(member.is_live for member in self._members)

    def _missing(self) -> int:
        unanswered = sum(member.unanswered for member in self._members)
        return unanswered + abs(self.sent * (self._size - 1) - self.delivered)
