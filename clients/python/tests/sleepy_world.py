# SPDX-License-Identifier: Apache-2.0
"""A clock on the wall that a test puts forward."""

from tidings_client.world import SystemWorld


class SleepyWorld(SystemWorld):
    """A world in which the clock on the wall can be put forward, as when a lid was closed."""

    slept_seconds = 0.0

    def wall(self) -> float:
        return super().wall() + self.slept_seconds
