# SPDX-License-Identifier: Apache-2.0
"""Master keys handed in by the operator, who also keeps them.

To rotate: give the new key as TIDINGS_MASTER_KEY and the old one as TIDINGS_MASTER_KEY_PREVIOUS,
restart, run `tidings keys rotate`, then take TIDINGS_MASTER_KEY_PREVIOUS away.
"""

from tidings.ports.secrets import KeyRefused, MasterKey, MasterKeys, master_key


class EnvironmentKeyring:
    """The master keys that came with the configuration."""

    def __init__(self, current: bytes, previous: bytes | None) -> None:
        self._current = master_key(current)
        self._given = (master_key(previous),) if previous is not None else ()
        self._previous = self._given

    @property
    def current(self) -> MasterKey:
        return self._current

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        return self._previous

    async def ensure(self) -> None:
        pass

    async def begin_rotation(self) -> None:
        if not self._given:
            raise KeyRefused(
                "the master key comes from the environment, so a new one has to come from there: "
                "set TIDINGS_MASTER_KEY to the new key and TIDINGS_MASTER_KEY_PREVIOUS to the "
                "present one, restart, and rotate again"
            )

    async def finish_rotation(self) -> None:
        self._previous = ()


_conforms: type[MasterKeys] = EnvironmentKeyring
