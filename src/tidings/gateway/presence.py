# SPDX-License-Identifier: Apache-2.0
"""Sends presence and changed profiles to users who share a small chat. Frames may be lost.

Presence never delays a message: changes are collected and sent about once a second. A user who
reconnects within that second is not reported as offline. Users who hide their presence are reported
to nobody, and nobody is reported to them. If one of two users blocks the other, neither is reported
to the other.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from tidings.actions.identity.blocks import BlockLists
from tidings.gateway.client_connection import ClientConnection, ConnectedUsers
from tidings.metrics.counts import report_counts
from tidings.model import limits
from tidings.model.ids import UserKey, rfc3339, user_id
from tidings.model.refusals import Refusal
from tidings.ports.bus import Bus, PresenceSwitched, ProfileChanged
from tidings.ports.delivery import RemoteGateways
from tidings.ports.people import UserStore
from tidings.ports.world import Clock
from tidings.tasks import Tasks
from tidings.wire.frames import Presence, ProfileFrame, encode

CHANGES_PER_TICK_MAX = 500
"""Limit on changes per tick. Further changes, such as after a restart, wait for the next tick."""


CHANGES_WAITING_MAX = 10_000
"""Limit on users whose changed profiles wait to be sent. Further changes are dropped; clients see
them in the next chat list."""


class PresenceTracker:
    """Watches the hub, and sends changes of a user's presence to the user's peers."""

    def __init__(
        self,
        hub: ConnectedUsers,
        users: UserStore,
        clock: Clock,
        blocks: BlockLists,
        remote_gateways: RemoteGateways | None = None,
    ) -> None:
        """Start to watch the hub; `remote_gateways` is None in a deployment of one process."""
        self._hub = hub
        self._remote_gateways = remote_gateways
        self._users = users
        self._clock = clock
        self._blocks = blocks
        self._tasks = Tasks("presence")
        self._changed: dict[UserKey, bool] = {}
        self._announced: set[UserKey] = set()
        """Users who were last announced as online. A connected user who is missing here will be
        announced at the next tick. Therefore `greet` does not send such a user: otherwise the
        device would receive the same presence twice."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        hub.watch(self._noticed)

    async def greet(self, user: UserKey, connection: ClientConnection) -> None:
        """Send the presence of the user's peers to a device that has just become live.

        Peers are sent in slices, as fast as the socket accepts them. If all were sent at once, the
        gateway would take the device for one that does not read. A peer who disconnects meanwhile
        is omitted, because this change will be announced anyway.
        """
        visible = await self._users.visible_peers(user)
        peers = {peer: visible[peer] for peer in await _without_blocks(self._blocks, user, visible)}
        at_first = online = await self._online(list(peers))
        for start in range(0, len(peers), limits.PRESENCE_SLICE_PEERS):
            some = list(peers)[start : start + limits.PRESENCE_SLICE_PEERS]
            if start:
                await asyncio.sleep(0)
                await connection.drained()
                online = await self._online(some)
            for peer in some:
                seen = peers[peer]
                if peer in online or (peer not in at_first and seen is not None):
                    connection.send(_frame(peer, peer in online, seen))

    async def _online(self, users: list[UserKey]) -> set[UserKey]:
        found = (await self._find_elsewhere(users)).values()
        return (self._hub.online(users) & self._announced).union(*found)

    def _noticed(self, user: UserKey, is_online: bool) -> None:
        self._changed.pop(user, None)
        self._changed[user] = is_online
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._changed and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.PRESENCE_TICK_MS / 1_000, self._tick)

    def _tick(self) -> None:
        batch = list(self._changed.items())[:CHANGES_PER_TICK_MAX]
        for user, _ in batch:
            del self._changed[user]
        now = self._clock.now()
        gone = {user: now for user, is_online in batch if not is_online}
        if gone:
            self._users.seen(gone)
        self._tasks.start(self._send_presence(batch, now))

    async def _send_presence(self, batch: list[tuple[UserKey, bool]], now: int) -> None:
        try:
            found = await self._find_elsewhere([user for user, _ in batch])
            online_elsewhere = {user for users in found.values() for user in users}
            for user, is_online in batch:
                if is_online == (user in self._announced):
                    continue
                if user not in online_elsewhere:  # else the user is still online elsewhere
                    await self._send_to_peers(user, _frame(user, is_online, now))
                (self._announced.add if is_online else self._announced.discard)(user)
        except Refusal:
            for user, is_online in batch:
                self._changed.setdefault(user, is_online)
        finally:
            self._timer = None
            self._schedule()

    async def _send_to_peers(self, user: UserKey, frame: bytes) -> None:
        visible = await self._users.visible_peers(user)
        peers = await _without_blocks(self._blocks, user, visible)
        found = await self._find_elsewhere(peers)
        for peer in self._hub.online(peers):
            for connection in self._hub.of(peer):
                connection.send(frame)
        if self._remote_gateways is not None:
            self._remote_gateways.send(frame, found)

    async def _find_elsewhere(self, users: Iterable[UserKey]) -> dict[str, list[UserKey]]:
        return await self._remote_gateways.find(users) if self._remote_gateways is not None else {}

    async def close(self) -> None:
        """Stop, and store the last-seen time of users who have just disconnected."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        now = self._clock.now()
        self._users.seen({user: now for user, online in self._changed.items() if not online})


class OnlineUsers:
    """Finds out which users are connected, to this process or to another gateway."""

    def __init__(self, hub: ConnectedUsers, remote_gateways: RemoteGateways | None) -> None:
        self._hub = hub
        self._remote_gateways = remote_gateways

    async def __call__(self, users: Iterable[UserKey]) -> set[UserKey]:
        """Return the users among these who are connected."""
        asked = list(users)
        online = self._hub.online(asked)
        if self._remote_gateways is not None:
            online.update(*(await self._remote_gateways.find(asked)).values())
        return online


class ProfileFrames:
    """Sends changed profiles to a user's peers, and reports users who hide or show their presence.

    A profile that changes several times within a few seconds is sent once, and so is presence that
    is switched several times within a second.
    """

    def __init__(
        self,
        bus: Bus,
        hub: ConnectedUsers,
        users: UserStore,
        blocks: BlockLists,
        remote_gateways: RemoteGateways | None = None,
    ) -> None:
        self.dropped = 0
        """Number of changes that were not sent, because too many were waiting."""
        report_counts(self, "profiles")
        self._hub = hub
        self._users = users
        self._blocks = blocks
        self._remote_gateways = remote_gateways
        self._is_online = OnlineUsers(hub, remote_gateways)
        self._waiting: dict[UserKey, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._switches: dict[UserKey, bool] = {}
        """Users who switched their presence, and whether they hide now; the last switch counts."""
        self._switch_timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks("profiles")
        bus.subscribe(self._changed, ProfileChanged)
        bus.subscribe(self._switched, PresenceSwitched)

    def _changed(self, event: ProfileChanged) -> None:
        if len(self._waiting) >= CHANGES_WAITING_MAX and event.user not in self._waiting:
            self.dropped += 1
            return
        frame = ProfileFrame(user_id(event.user), event.display_name, event.avatar_url)
        self._waiting[event.user] = encode(frame)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.PROFILE_FRAME_MS / 1_000, self._send_waiting)

    def _send_waiting(self) -> None:
        self._timer = None
        changed, self._waiting = self._waiting, {}
        self._tasks.start(self._send_all(changed))

    async def _send_all(self, changed: dict[UserKey, bytes]) -> None:
        for user, frame in changed.items():
            with suppress(Refusal):  # the store does not answer; clients read the profile later
                await self._send(frame, [user, *await self._users.peers(user)])

    def _switched(self, event: PresenceSwitched) -> None:
        if len(self._switches) >= CHANGES_WAITING_MAX and event.user not in self._switches:
            self.dropped += 1
            return
        self._switches[event.user] = event.is_hidden
        self._schedule_switches()

    def _schedule_switches(self) -> None:
        if self._switch_timer is None and self._switches:
            loop = asyncio.get_running_loop()
            seconds = limits.PRESENCE_TICK_MS / 1_000
            self._switch_timer = loop.call_later(seconds, self._send_switches)

    def _send_switches(self) -> None:
        switches, self._switches = self._switches, {}
        self._tasks.start(self._send_presences(switches))

    async def _send_presences(self, switches: dict[UserKey, bool]) -> None:
        try:
            for user, is_hidden in switches.items():
                await self._send_presence(user, is_hidden)
        finally:
            self._switch_timer = None
            self._schedule_switches()

    async def _send_presence(self, user: UserKey, is_hidden: bool) -> None:
        """Report a user who hides as offline, and a connected user who shows presence as online."""
        with suppress(Refusal):
            if is_hidden:
                peers: Collection[UserKey] = await self._users.peers(user)
            elif await self._is_online([user]):
                peers = await self._users.visible_peers(user)
            else:
                return
            frame = _frame(user, not is_hidden, None)
            await self._send(frame, await _without_blocks(self._blocks, user, peers))

    async def _send(self, frame: bytes, users: Sequence[UserKey]) -> None:
        left = limits.PROFILE_FRAME_CONNECTIONS_MAX
        for user in users:
            for connection in self._hub.of(user)[:left]:
                connection.send(frame)
                left -= 1
        if self._remote_gateways is not None and left > 0:
            found = await self._remote_gateways.find(users)
            gateways = {name: some[:left] for name, some in found.items()}
            self._remote_gateways.send(frame, gateways)

    async def close(self) -> None:
        """Stop; waiting changes are not sent."""
        self._switches.clear()
        for timer in (self._timer, self._switch_timer):
            if timer is not None:
                timer.cancel()
        await self._tasks.close()


async def _without_blocks(
    blocks: BlockLists, user: UserKey, peers: Collection[UserKey]
) -> list[UserKey]:
    """Return the peers whom the user does not block, and who do not block the user."""
    found = await blocks.of(user, peers)
    return [peer for peer in peers if not found.separates(peer)]


def _frame(user: UserKey, is_online: bool, seen: int | None) -> bytes:
    last_seen = None if is_online or seen is None else rfc3339(seen)
    return encode(Presence(user_id(user), is_online, last_seen))
