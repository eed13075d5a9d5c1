# SPDX-License-Identifier: Apache-2.0
"""Failpoints at which a process dies."""

from tidings.ports.world import FailpointName, Failpoints


class Died(Exception):
    """The process would be dead now."""


class DiesAt:
    """Failpoints that end it all at the first visit to one place: who waits is never answered."""

    def __init__(self, place: FailpointName) -> None:
        self._place = place

    def armed(self, place: FailpointName) -> bool:
        return place == self._place

    def reach(self, place: FailpointName) -> None:
        if place == self._place:
            raise Died(place)


_conforms: type[Failpoints] = DiesAt
