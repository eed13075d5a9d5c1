# SPDX-License-Identifier: Apache-2.0
"""Wrapped data keys, the list of master keys that wrap them, and the deployment's secrets."""

from functools import partial
from typing import Final

from tidings.model.formats import NEWEST
from tidings.model.ids import UserKey
from tidings.ports.secrets import DataKeys, Deployment, WrappedKey
from tidings.ports.sessions import Revocation
from tidings.ports.world import Chance
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Update
from tidings.stores.dynamodb.export.scanning import Walk
from tidings.stores.dynamodb.formats import EPOCH, Formats
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations

_LISTED: Final = "master#"
EPOCH_BYTES: Final = 8


class MasterList:
    """Maintains the stored list of master keys in use."""

    def __init__(self, dynamo: Dynamo, chance: Chance) -> None:
        self._dynamo = dynamo
        self._chance = chance
        self._listed: set[str] = set()

    async def before_wrapping(self, master_key_id: str) -> None:
        """Add the master key to the list, unless this process has already done so.

        After wrapping, the caller must call `after_wrapping`, because the key may have been removed
        from the list meanwhile.
        """
        if master_key_id not in self._listed:
            await self.after_wrapping(master_key_id)

    async def after_wrapping(self, master_key_id: str) -> None:
        """Ensure that the master key is on the list and not marked for removal."""
        found = await self._dynamo.get(patterns.READ_VALUE, _key(master_key_id))
        if found is None or "closing" in found:
            await self._dynamo.put(patterns.KEEP_VALUE, _key(master_key_id))
        self._listed.add(master_key_id)

    async def others(self, master_key_id: str) -> list[str]:
        """Return the ids of all other listed master keys, which may still wrap data keys."""
        items = await self._dynamo.query(
            patterns.LIST_MASTER_KEYS,
            "#pk = :pk AND begins_with(#sk, :listed)",
            {":pk": "deployment", ":listed": _LISTED},
        )
        listed = [item["sk"].removeprefix(_LISTED) for item in items]
        return [key_id for key_id in listed if key_id != master_key_id]

    async def close(self, master_key_ids: list[str]) -> str:
        """Mark master keys for removal from the list, with a random text; return this text."""
        mark = self._chance.token(8).hex()
        for key_id in master_key_ids:
            await self._dynamo.update(
                patterns.CLOSE_MASTER_KEY,
                _key(key_id),
                "SET #closing = :mark",
                values={":mark": mark},
            )
        return mark

    async def strike_off(self, master_key_ids: list[str], mark: str) -> bool:
        """Remove these master keys from the list, because they no longer wrap any data key.

        `mark` is the text that `close` returned. A key that was added or marked again since then
        stays on the list. Returns True if no such key is left, False otherwise.
        """
        is_done = True
        for key_id in master_key_ids:
            try:
                await self._dynamo.delete(
                    patterns.STRIKE_OFF_MASTER_KEY,
                    _key(key_id),
                    "#closing = :mark",
                    {":mark": mark},
                )
            except ConditionFailed as failed:
                is_done &= failed.item is None  # removed already, by another call
        return is_done


def _key(master_key_id: str) -> Item:
    return {"pk": "deployment", "sk": _LISTED + master_key_id}


class DynamoDataKeys:
    """Stores data keys, one item for each author.

    The item remains after the key is destroyed, so that generation numbers are never reused.
    """

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations
        self._masters = MasterList(dynamo, dynamo.chance)
        self._walk = Walk(dynamo, patterns.SCAN_DATA_KEYS)

    async def current(self, author: UserKey) -> WrappedKey | None:
        return _to_key(await self._dynamo.get(patterns.READ_DATA_KEY, {"author": author}))

    async def get(self, author: UserKey, generation: int) -> WrappedKey | None:
        key = await self.current(author)
        is_it = key is not None and key.generation == generation and not key.is_ending
        return key if is_it else None

    async def add(self, key: WrappedKey) -> WrappedKey:
        await self._masters.before_wrapping(key.master_key_id)
        try:
            item = await self._dynamo.update(
                patterns.ADD_DATA_KEY,
                {"author": key.author},
                "SET #wrapped = :wrapped, #master_key_id = :master ADD #generation :one",
                "attribute_not_exists(#wrapped)",
                {":wrapped": key.wrapped, ":master": key.master_key_id, ":one": 1},
            )
        except ConditionFailed as failed:
            item = failed.item or {}
        stored = _to_key(item)
        assert stored is not None, "the author has a key now: the new one, or one added before"
        await self._masters.after_wrapping(stored.master_key_id)
        return stored

    async def end(self, author: UserKey, now: int) -> int | None:
        revocation = Revocation(kind="data_key", subject=author, at=now)
        ending = Update(
            "keys",
            {"author": author},
            "SET #is_ending = :true",
            "attribute_exists(#wrapped) AND attribute_not_exists(#is_ending)",
            {":true": True},
        )
        if await self.current(author) is not None:
            # If the condition fails, another caller has ended the key, and the feed contains that.
            await self._revocations.append_with([revocation], [ending])
        key = await self.current(author)
        return key.generation if key is not None and key.is_ending else None

    async def destroy(self, author: UserKey, generation: int, now: int) -> None:
        erasure = Revocation(kind="author", subject=author, at=now)
        destroying = Update(
            "keys",
            {"author": author},
            "REMOVE #wrapped, #master_key_id, #is_ending",
            "attribute_exists(#is_ending) AND #generation = :generation",
            {":generation": generation},
        )
        # If the condition fails, another process was first, and the feed contains the erasure.
        await self._revocations.append_with([erasure], [destroying])

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        while others := await self._masters.others(master_key_id):
            mark = await self._masters.close(others)
            items = await self._walk.some(
                "attribute_exists(#wrapped) AND #master_key_id <> :master",
                {":master": master_key_id},
                limit,
            )
            if items:
                return [key for item in items if (key := _to_key(item))]
            await self._masters.strike_off(others, mark)
        return []

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        masters = {key.master_key_id for key in keys}
        for key_id in masters:
            await self._masters.before_wrapping(key_id)
        await gather_bounded(partial(self._rewrap, key) for key in keys)
        for key_id in masters:
            await self._masters.after_wrapping(key_id)

    async def _rewrap(self, key: WrappedKey) -> None:
        try:
            await self._dynamo.update(
                patterns.REWRAP_DATA_KEY,
                {"author": key.author},
                "SET #wrapped = :wrapped, #master_key_id = :master",
                "attribute_exists(#wrapped) AND #generation = :generation",
                {
                    ":wrapped": key.wrapped,
                    ":master": key.master_key_id,
                    ":generation": key.generation,
                },
            )
        except ConditionFailed:
            return  # the key was destroyed meanwhile


class DynamoDeployment:
    """Stores the values that exist once in a deployment: epoch, formats and encrypted secrets."""

    def __init__(self, dynamo: Dynamo, epoch: str, formats: Formats) -> None:
        self._dynamo = dynamo
        self._epoch = epoch
        self._formats = formats

    @property
    def epoch(self) -> str:
        return self._epoch

    @property
    def writes(self) -> int:
        return self._formats.written

    async def sealed(self, name: str) -> tuple[str, bytes] | None:
        item = await self._dynamo.get(patterns.READ_VALUE, _value(f"secret#{name}"))
        return (item["master_key_id"], item["sealed"]) if item else None

    async def keep_first_sealed(
        self, name: str, master_key_id: str, sealed: bytes
    ) -> tuple[str, bytes]:
        item = _secret(name, master_key_id, sealed)
        try:
            await self._dynamo.put(patterns.KEEP_VALUE, item, "attribute_not_exists(#pk)")
        except ConditionFailed as failed:
            assert failed.item is not None, "the condition failed because an item exists"
            item = failed.item
        return item["master_key_id"], item["sealed"]

    async def replace_sealed(
        self, name: str, before: tuple[str, bytes], master_key_id: str, sealed: bytes
    ) -> bool:
        item = _secret(name, master_key_id, sealed)
        try:
            await self._dynamo.put(
                patterns.KEEP_VALUE,
                item,
                "#master_key_id = :master AND #sealed = :before",
                {":master": before[0], ":before": before[1]},
            )
        except ConditionFailed as failed:
            return failed.is_repeat and failed.item == item
        return True


async def ensure_epoch(dynamo: Dynamo, chance: Chance) -> Item:
    """Store a random epoch, unless another process has stored one; return the stored item."""
    item = {**EPOCH, "value": chance.token(EPOCH_BYTES).hex(), "writes": NEWEST}
    try:
        await dynamo.put(patterns.KEEP_VALUE, item, "attribute_not_exists(#pk)")
    except ConditionFailed as failed:
        assert failed.item is not None, "the condition failed because an item exists"
        return failed.item
    return item


def _value(name: str) -> Item:
    return {"pk": "deployment", "sk": name}


def _secret(name: str, master_key_id: str, sealed: bytes) -> Item:
    return {**_value(f"secret#{name}"), "master_key_id": master_key_id, "sealed": sealed}


def _to_key(item: Item | None) -> WrappedKey | None:
    if item is None or "wrapped" not in item:
        return None
    return WrappedKey(
        author=item["author"],
        generation=item["generation"],
        wrapped=item["wrapped"],
        master_key_id=item["master_key_id"],
        is_ending="is_ending" in item,
    )


_conforms_keys: type[DataKeys] = DynamoDataKeys
_conforms_deployment: type[Deployment] = DynamoDeployment
