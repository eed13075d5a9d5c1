# SPDX-License-Identifier: Apache-2.0
"""A server without chats, whose users listen on named channels and publish to them."""

from abc import abstractmethod

from bench.peers.member import Member, Server


class ChannelServer(Server):
    """A running server with channels."""

    copies_to_sender = 1
    _channels = 0

    @abstractmethod
    async def member(self, listens_on: str, sends_to: str) -> Member:
        """Connect a user."""

    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Connect pairs; each user has a channel, and publishes to that of the other."""
        found = []
        for _ in range(count):
            left, right = self._new_channel(), self._new_channel()
            found.append((await self.member(left, right), await self.member(right, left)))
        return found

    async def group(self, size: int, senders: int) -> list[Member]:
        """Connect users to one channel, on which they also publish."""
        del senders  # every user can send
        channel = self._new_channel()
        return [await self.member(channel, channel) for _ in range(size)]

    def _new_channel(self) -> str:
        self._channels += 1
        return f"chat.{self._channels}"
