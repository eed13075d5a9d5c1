# SPDX-License-Identifier: Apache-2.0
"""Lanes: one for each chat in use, with its committed state and what waits to be appended."""

from collections import OrderedDict, deque

from tidings.actions.proposals import Proposal
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.ids import ChatId


class Lane:
    """One chat."""

    __slots__ = ("chat_id", "is_busy", "is_doubtful", "state", "waiting")

    def __init__(self, chat_id: ChatId) -> None:
        self.chat_id = chat_id
        self.state: ChatState | None = None
        self.waiting: deque[Proposal] = deque()
        self.is_busy = False
        """A run is on its way to the log, or something is being read: no other may start."""
        self.is_doubtful = False
        """The first that waits would be refused, if the state is as it was seen last."""


class Lanes:
    """The chats in use: a cache, bounded by chats and by members, least recently used out."""

    def __init__(self) -> None:
        self._by_chat: OrderedDict[ChatId, Lane] = OrderedDict()
        self._members = 0

    def get(self, chat: ChatId) -> Lane:
        """The chat's lane, made if there is none; the chat counts as just used."""
        lane = self._by_chat.get(chat)
        if lane is None:
            lane = self._by_chat[chat] = Lane(chat)
            self._shrink()
        else:
            self._by_chat.move_to_end(chat)
        return lane

    def state(self, chat: ChatId) -> ChatState | None:
        """The chat's committed state, if it is cached."""
        lane = self._by_chat.get(chat)
        return lane.state if lane is not None else None

    def keep_state(self, lane: Lane, state: ChatState | None) -> None:
        """This is the chat's committed state now."""
        before = len(lane.state.members) if lane.state else 0
        lane.state = state
        self._members += (len(state.members) if state else 0) - before

    def forget(self, lane: Lane) -> None:
        """Drop the lane; whatever waits in it has been answered."""
        self.keep_state(lane, None)
        del self._by_chat[lane.chat_id]

    def _shrink(self) -> None:
        while (
            len(self._by_chat) > limits.CACHED_CHATS_MAX
            or self._members > limits.CACHED_MEMBERS_MAX
        ):
            idle = (lane for lane in self._by_chat.values() if lane.state and not lane.is_busy)
            lane = next(idle, None)
            if lane is None:
                return
            self.forget(lane)
