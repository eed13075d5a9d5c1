# SPDX-License-Identifier: Apache-2.0
"""That an export is as a deployment wrote it: a keyed digest at its end.

Its key comes from the master key, which has to travel anyway for the content to be of any use. So
whoever can check an export is whoever can read it, and nobody can make one who has only the file.
"""

import hmac
from typing import Final

from tidings.ports.moving import Closing
from tidings.ports.secrets import MasterKey, MasterKeys

_PURPOSE: Final = b"tidings export\0"


class Unproven(Exception):
    """The file cannot be trusted; says why."""


class ExportProof:
    """Signs with the current master key, checks with any that is held."""

    def __init__(self, master: MasterKeys) -> None:
        self._master = master

    def sign(self, sha256: str) -> tuple[str, str]:
        """The id of the master key, and the keyed digest of a digest.

        Raises:
            Unproven: There is no master key.
        """
        current = self._master.current
        if current is None:
            raise Unproven("the master key is missing: without it nobody could trust the export")
        return current.key_id, _mac(current, sha256)

    def check(self, closing: Closing) -> None:
        """Believe an export whose digest is that of its lines.

        Raises:
            Unproven: It was changed, or is not of a deployment with a master key that is held.
        """
        if closing.master_key_id is None or closing.mac is None:
            raise Unproven("it has no signature at its end")
        for key in self._held():
            if key.key_id == closing.master_key_id:
                if not hmac.compare_digest(
                    _mac(key, closing.sha256).encode(), closing.mac.encode()
                ):
                    raise Unproven("it was changed after it was exported")
                return
        raise Unproven(
            f"it is signed with the master key {closing.master_key_id}, which is not at hand: give "
            "the new deployment the master key of the old one first"
        )

    def _held(self) -> tuple[MasterKey, ...]:
        current = self._master.current
        return (*self._master.previous, *([current] if current is not None else []))


def _mac(key: MasterKey, sha256: str) -> str:
    derived = hmac.digest(key.secret, _PURPOSE, "sha256")
    return hmac.digest(derived, sha256.encode(), "sha256").hex()
