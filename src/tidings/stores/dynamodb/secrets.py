# SPDX-License-Identifier: Apache-2.0
"""Wrapped data keys and the deployment's own values, on DynamoDB."""

from functools import partial
from typing import Final

from tidings.model.ids import UserKey
from tidings.ports.revocations import Revocation
from tidings.ports.secrets import DataKeys, Deployment, WrappedKey
from tidings.ports.world import Chance
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.masters import MasterList
from tidings.stores.dynamodb.revocations import DynamoRevocations
from tidings.stores.dynamodb.scanning import Walk
from tidings.stores.dynamodb.side_by_side import together
from tidings.stores.dynamodb.trouble import ConditionFailed, Item
from tidings.stores.dynamodb.writes import Update

EPOCH_BYTES: Final = 8


class DynamoDataKeys:
    """One item for each author. A destroyed key leaves it: its generation is never used again."""

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
        counts = _to_key(item)
        assert counts is not None, "the author has a key now: this one, or the one in its way"
        await self._masters.after_wrapping(counts.master_key_id)
        return counts

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
            # If it cannot be, another one did it meanwhile, or before: then the feed was told.
            await self._revocations.append_with([revocation], [ending])
        key = await self.current(author)
        return key.generation if key is not None and key.is_ending else None

    async def destroy(self, author: UserKey, generation: int) -> None:
        try:
            await self._dynamo.update(
                patterns.DESTROY_DATA_KEY,
                {"author": author},
                "REMOVE #wrapped, #master_key_id, #is_ending",
                "attribute_exists(#is_ending) AND #generation = :generation",
                {":generation": generation},
            )
        except ConditionFailed:
            return  # another process was first

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
        for one in masters:
            await self._masters.before_wrapping(one)
        await together(partial(self._rewrap, key) for key in keys)
        for one in masters:
            await self._masters.after_wrapping(one)

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
            return  # destroyed meanwhile: passed over


class DynamoDeployment:
    """Values of the deployment as a whole."""

    def __init__(self, dynamo: Dynamo, epoch: str) -> None:
        self._dynamo = dynamo
        self._epoch = epoch

    @property
    def epoch(self) -> str:
        return self._epoch

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
            assert failed.item is not None, "what is in the way is there"
            item = failed.item
        return item["master_key_id"], item["sealed"]

    async def keep_sealed(self, name: str, master_key_id: str, sealed: bytes) -> None:
        await self._dynamo.put(patterns.KEEP_VALUE, _secret(name, master_key_id, sealed))


async def ensure_epoch(dynamo: Dynamo, chance: Chance) -> str:
    """The store's epoch, rolled when the first process opens it."""
    found = await dynamo.get(patterns.READ_VALUE, _value("epoch"))
    if found is None:
        found = {**_value("epoch"), "value": chance.token(EPOCH_BYTES).hex()}
        try:
            await dynamo.put(patterns.KEEP_VALUE, found, "attribute_not_exists(#pk)")
        except ConditionFailed as failed:
            assert failed.item is not None, "what is in the way is there"
            found = failed.item
    return str(found["value"])


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
