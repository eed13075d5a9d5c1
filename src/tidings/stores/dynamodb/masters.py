# SPDX-License-Identifier: Apache-2.0
"""Which master keys wrap data keys, written down, so that knowing it takes no look at every key.

A master key is listed before it wraps anything, and looked up again afterwards. A rotation marks
it as closing, then looks through all keys, and strikes it off if the mark still stands. Whoever
wrapped one meanwhile either did so before the mark, and the look meets the key, or finds the mark
and takes it off.
"""

from typing import Final

from tidings.ports.world import Chance
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.trouble import ConditionFailed, Item

_LISTED: Final = "master#"


class MasterList:
    """The master keys in use, as the store knows them."""

    def __init__(self, dynamo: Dynamo, chance: Chance) -> None:
        self._dynamo = dynamo
        self._chance = chance
        self._listed: set[str] = set()

    async def before_wrapping(self, master_key_id: str) -> None:
        """List the key, unless this process knows that it once was: the look afterwards decides."""
        if master_key_id not in self._listed:
            await self.after_wrapping(master_key_id)

    async def after_wrapping(self, master_key_id: str) -> None:
        """See to it that the key is listed, and not about to be struck off."""
        found = await self._dynamo.get(patterns.READ_VALUE, _key(master_key_id))
        if found is None or "closing" in found:
            await self._dynamo.put(patterns.KEEP_VALUE, _key(master_key_id))
        self._listed.add(master_key_id)

    async def others(self, master_key_id: str) -> list[str]:
        """The other master keys that may wrap something."""
        items = await self._dynamo.query(
            patterns.LIST_MASTER_KEYS,
            "#pk = :pk AND begins_with(#sk, :listed)",
            {":pk": "deployment", ":listed": _LISTED},
        )
        listed = [item["sk"].removeprefix(_LISTED) for item in items]
        return [one for one in listed if one != master_key_id]

    async def close(self, master_key_ids: list[str]) -> str:
        """Mark keys as closing; returns the mark, which is this call's own."""
        mark = self._chance.token(8).hex()
        for one in master_key_ids:
            await self._dynamo.update(
                patterns.CLOSE_MASTER_KEY, _key(one), "SET #closing = :mark", values={":mark": mark}
            )
        return mark

    async def strike_off(self, master_key_ids: list[str], mark: str) -> bool:
        """Forget keys that wrap nothing; False if one was used again since it was marked."""
        is_done = True
        for one in master_key_ids:
            try:
                await self._dynamo.delete(
                    patterns.STRIKE_OFF_MASTER_KEY, _key(one), "#closing = :mark", {":mark": mark}
                )
            except ConditionFailed as failed:
                is_done &= failed.item is None  # struck off already: as good
        return is_done


def _key(master_key_id: str) -> Item:
    return {"pk": "deployment", "sk": _LISTED + master_key_id}
