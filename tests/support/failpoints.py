# SPDX-License-Identifier: Apache-2.0
"""Failpoints at which a process seems to crash."""

from tidings.ports.world import FailpointName, Failpoints


class Died(Exception):
    """Raised where a real process would have crashed."""


class DiesAt:
    """Failpoints that raise Died at one place, so that waiting callers get no answer."""

    def __init__(self, place: FailpointName) -> None:
        self._place = place

    def armed(self, place: FailpointName) -> bool:
        return place == self._place

    def reach(self, place: FailpointName) -> None:
        if place == self._place:
            raise Died(place)


_conforms: type[Failpoints] = DiesAt
