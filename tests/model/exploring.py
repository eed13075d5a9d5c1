# SPDX-License-Identifier: Apache-2.0
"""Visiting every state that a small model can reach, whatever happens in whatever order."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)

Moves = Callable[[State], Iterable[tuple[str, State]]]
"""All that can happen next in a state: what it is called, and the state after it."""


class Exploration(Generic[State]):
    """All states reachable from a first one, each with a shortest way to it.

    It ends early at a state for which `is_enough` holds.
    """

    def __init__(
        self,
        start: State,
        moves: Moves[State],
        is_enough: Callable[[State], bool] = lambda _: False,
    ) -> None:
        self._came_by: dict[State, tuple[str, State] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            if is_enough(state):
                return
            for name, following in moves(state):
                if following not in self._came_by:
                    self._came_by[following] = (name, state)
                    waiting.append(following)

    @property
    def states(self) -> Iterable[State]:
        """Every state there is, nearest first."""
        return self._came_by.keys()

    def __len__(self) -> int:
        return len(self._came_by)

    def way_to(self, state: State) -> list[str]:
        """What has to happen for the model to get there."""
        way = []
        while (step := self._came_by[state]) is not None:
            name, state = step
            way.append(name)
        return way[::-1]

    def ways_to_violate(self, violations: Callable[[State], Iterable[str]]) -> dict[str, list[str]]:
        """Which promises do not hold in some state, each with a shortest way to one."""
        ways: dict[str, list[str]] = {}
        for state in self.states:
            for violation in violations(state):
                ways.setdefault(violation, self.way_to(state))
        return ways
