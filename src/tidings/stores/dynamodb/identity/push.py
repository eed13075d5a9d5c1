# SPDX-License-Identifier: Apache-2.0
"""Registrations for push, and the push settings of tenants, on DynamoDB.

A registration has three items: itself in the partition of the user, the claim of its target, and
its listing among the registrations of the tenant. One transaction writes all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from tidings.model.ids import UserKey, user_key
from tidings.model.push import DEVICES_MAX, PushRegistration, PushSettings
from tidings.model.refusals import LimitReached, StoreUnavailable
from tidings.ports.export_feature_facts import PushDeviceFact, PushFacts, PushSettingsFact
from tidings.ports.export_inbox_facts import converted
from tidings.ports.people import Listed
from tidings.ports.push import PushStore
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import listings
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Delete, Put, Write
from tidings.stores.dynamodb.identity.items import partition
from tidings.stores.dynamodb.identity.push_patterns import (
    FIND_PUSH_DEVICES,
    FIND_PUSH_TARGET,
    READ_PUSH_DEVICES,
    READ_PUSH_SETTINGS,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations

DEVICES: Final = "push#"
TARGETS: Final = "push_target#"
SETTINGS: Final = "push"
ATTEMPTS_MAX: Final = 3
_CLAIM: Final = "device"
_HAS_TARGET: Final = "#digest = :digest"
_HAS_NO_OTHER: Final = f"attribute_not_exists(#pk) OR {_HAS_TARGET}"
_IS_OWNER: Final = "#user_id = :user AND #device = :device"


class DynamoPushStore:
    """Stores registrations and settings in the table of tenants."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def register(self, registration: PushRegistration) -> UserKey | None:
        for _ in range(ATTEMPTS_MAX):
            claim = await self._dynamo.get(FIND_PUSH_TARGET, _target_key(registration.digest))
            if await self._register(registration, claim):
                before = None if claim is None else UserKey(claim["user_id"])
                return None if before == registration.user_id else before
        raise StoreUnavailable  # others register the same target or device again and again

    async def _register(self, new: PushRegistration, claim: Item | None) -> bool:
        own = {one.device: one for one in await self.of(new.user_id)}
        before = own.pop(new.device, None)
        if len(own) >= DEVICES_MAX:
            raise LimitReached(f"a user can register at most {DEVICES_MAX} devices for push")
        is_as_before = "attribute_not_exists(#pk)" if before is None else _HAS_TARGET
        values: dict[str, Any] = {} if before is None else {":digest": before.digest}
        changes: list[Write] = [
            Put("tenants", registration_item(new), is_as_before, values),
            _claiming(new, claim),
            Put("listings", listings.push_listing(new.user_id, new.device)),
        ]
        if before is not None and before.digest != new.digest:
            changes.append(_unclaiming(before))
        concerned = [new.user_id]
        if claim is not None and (claim["user_id"], claim["device"]) != (new.user_id, new.device):
            changes += _dropping(claim["user_id"], claim["device"], new.digest)
            concerned.append(claim["user_id"])
        return await self._append(concerned, new.created_at, changes)

    async def of(self, user: UserKey) -> list[PushRegistration]:
        items = await self._dynamo.query(READ_PUSH_DEVICES, "#pk = :pk", {":pk": DEVICES + user})
        return [to_registration(item) for item in items]

    async def remove(
        self, user: UserKey, device: str, now: int, *, digest: str | None = None
    ) -> bool:
        found = next((one for one in await self.of(user) if one.device == device), None)
        if found is None or (digest is not None and found.digest != digest):
            return False
        changes = [*_dropping(user, device, found.digest), _unclaiming(found)]
        return await self._append([user], now, changes)

    async def of_tenant(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[PushRegistration]:
        places = listings.push_of(tenant)
        names, end = await listings.by_name(self._dynamo, places, "", after, limit)
        keys = []
        for name in names:
            user, _, device = name.partition("#")
            keys.append(_device_key(user_key(tenant, user), device))
        items = await self._dynamo.batch_get(FIND_PUSH_DEVICES, keys)
        found = sorted(map(to_registration, items), key=lambda one: (one.user_id, one.device))
        return Listed(found, end)

    async def put_settings(self, settings: PushSettings, before: PushSettings | None) -> bool:
        is_as_before, values = "attribute_not_exists(#pk)", dict[str, Any]()
        if before is not None:
            is_as_before, values = "#box = :box", {":box": before.box}
        change = Put("tenants", push_settings_item(settings), is_as_before, values)
        return await self._append([settings.tenant], settings.updated_at, [change])

    async def settings(self, tenant: str) -> PushSettings | None:
        item = await self._dynamo.get(READ_PUSH_SETTINGS, _settings_key(tenant))
        return None if item is None else to_push_settings(item)

    async def _append(self, subjects: Sequence[str], now: int, changes: list[Write]) -> bool:
        told = [Revocation(kind="push", subject=one, at=now) for one in dict.fromkeys(subjects)]
        return await self._revocations.append_with(told, changes)


def _claiming(new: PushRegistration, before: Item | None) -> Put:
    """Return the write that claims a target, if its claim is still as it was read."""
    item = {**_target_key(new.digest), "user_id": new.user_id, "device": new.device}
    if before is None:
        return Put("tenants", item, "attribute_not_exists(#pk)")
    owner = {":user": before["user_id"], ":device": before["device"]}
    return Put("tenants", item, _IS_OWNER, owner)


def _unclaiming(old: PushRegistration) -> Delete:
    owner: dict[str, Any] = {":user": old.user_id, ":device": old.device}
    return Delete("tenants", _target_key(old.digest), _IS_OWNER, owner)


def _dropping(user: UserKey, device: str, digest: str) -> list[Write]:
    """Return the writes that remove a registration, if it has no other target by now."""
    return [
        Delete("tenants", _device_key(user, device), _HAS_NO_OTHER, {":digest": digest}),
        Delete("listings", listings.push_listing(user, device)),
    ]


def _device_key(user: UserKey, device: str) -> Item:
    return {"pk": DEVICES + user, "sk": device}


def _target_key(digest: str) -> Item:
    return {"pk": TARGETS + digest, "sk": _CLAIM}


def _settings_key(tenant: str) -> Item:
    return {"pk": partition(tenant), "sk": SETTINGS}


def registration_item(registration: PushRegistration) -> Item:
    """Convert a registration to its item."""
    values = msgspec.structs.asdict(registration)
    key = _device_key(values.pop("user_id"), values.pop("device"))
    return {**key, **{name: value for name, value in values.items() if value is not None}}


def registration_items(registration: PushRegistration) -> tuple[Item, Item, Item]:
    """Return the three items of a registration; the last is in the table of listings."""
    owner = {"user_id": registration.user_id, "device": registration.device}
    return (
        registration_item(registration),
        {**_target_key(registration.digest), **owner},
        listings.push_listing(registration.user_id, registration.device),
    )


def to_registration(item: Item) -> PushRegistration:
    """Convert a stored item to a registration."""
    values = {name: value for name, value in item.items() if name not in ("pk", "sk")}
    user = UserKey(item["pk"].removeprefix(DEVICES))
    return PushRegistration(user_id=user, device=item["sk"], **values)


def push_settings_item(settings: PushSettings) -> Item:
    """Convert the settings of a tenant to their item."""
    values = msgspec.structs.asdict(settings)
    tenant = values.pop("tenant")
    return {**_settings_key(tenant), **values, "providers": list(settings.providers)}


def to_push_settings(item: Item) -> PushSettings:
    """Convert a stored item to the settings of a tenant."""
    values = {name: value for name, value in item.items() if name not in ("pk", "sk")}
    tenant = item["pk"].removeprefix(partition(""))
    return PushSettings(tenant=tenant, **{**values, "providers": tuple(item["providers"])})


def push_facts(items: Iterable[Item]) -> Iterator[PushFacts]:
    """Yield the facts about push among items of the table of tenants."""
    for item in items:
        if str(item["pk"]).startswith(DEVICES):
            yield converted(PushDeviceFact, to_registration(item))
        elif item["sk"] == SETTINGS:
            yield converted(PushSettingsFact, to_push_settings(item))


def push_order(fact: PushFacts) -> tuple[bool, str, str]:
    """Return the position of a fact in an export: first devices, then settings."""
    if isinstance(fact, PushDeviceFact):
        return False, fact.user_id, fact.device
    return True, fact.tenant, ""


def is_push(item: Item) -> bool:
    """Return True if an item of the table of tenants is about push."""
    return item["sk"] == SETTINGS or str(item["pk"]).startswith((DEVICES, TARGETS))


_conforms: type[PushStore] = DynamoPushStore
