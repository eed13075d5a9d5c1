# SPDX-License-Identifier: Apache-2.0
"""Login codes and SMS budgets on DynamoDB, stored as expiring items in the table of sessions."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import Allowance, Budgets, KeptCode, LoginCode, LoginCodes
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, ConditionFailed, Item
from tidings.stores.dynamodb.client.writes import Update
from tidings.stores.dynamodb.identity.identity_patterns import (
    ADD_UP,
    COUNT_ATTEMPT,
    GIVE_BACK,
    KEEP_CODE,
    READ_BUDGETS,
    READ_CODE,
    RESTORE_CODE,
    SPEND,
    USE_CODE,
)
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

CODES: Final = "c#"
BUDGETS: Final = "b#"

_NOBODY: Final = "-"
"""Used if the client's address is unknown; never equals the digest of an address."""
_IS_VALID: Final = "#expires_at > :now AND #attempts < :most AND attribute_not_exists(#used_by)"
_ADD: Final = "SET #expires_at = :expires_at, #ttl = :ttl ADD #spent :count"


class DynamoLoginCodes:
    """Stores login codes, one item per phone number of a tenant; a new code replaces the old
    one."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def put(self, code: LoginCode) -> None:
        fresh = KeptCode(code=code, attempts=0, attempts_elsewhere=0)
        await self._dynamo.put(KEEP_CODE, _code_item(fresh))

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        item = await self._dynamo.get(READ_CODE, code_key(tenant, phone_number))
        if item is None or "used_by" in item:
            return None
        return KeptCode(
            code=_code(tenant, phone_number, item),
            attempts=item["attempts"],
            attempts_elsewhere=item.get("attempts_elsewhere", 0),
        )

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        is_there = "#digest = :digest AND attribute_not_exists(#used_by)"
        with suppress(ConditionFailed):
            await self._dynamo.put(
                RESTORE_CODE, _code_item(before), is_there, {":digest": code.digest}
            )

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        # An attempt whose answer was lost may be counted twice, which only allows fewer attempts.
        key = code_key(tenant, phone_number)
        values: Item = {":one": 1, ":now": now, ":most": limits.CODE_ATTEMPTS_MAX}
        values[":tried_by"] = tried_by or _NOBODY
        item: Item | None
        try:
            item = await self._dynamo.update(
                COUNT_ATTEMPT,
                key,
                "ADD #attempts :one",
                f"{_IS_VALID} AND (attribute_not_exists(#asked_by) OR #asked_by = :tried_by)",
                values,
            )
        except ConditionFailed:
            item = await self._attempt_elsewhere(key, values)
        return _code(tenant, phone_number, item) if item is not None else None

    async def _attempt_elsewhere(self, key: Item, values: Item) -> Item | None:
        values |= {":most_elsewhere": limits.CODE_ATTEMPTS_ELSEWHERE_MAX}
        try:
            return await self._dynamo.update(
                COUNT_ATTEMPT,
                key,
                "ADD #attempts :one, #attempts_elsewhere :one",
                f"{_IS_VALID} AND #asked_by <> :tried_by AND #attempts_elsewhere < :most_elsewhere",
                values,
            )
        except ConditionFailed:
            return None

    async def use(self, code: LoginCode) -> bool:
        # The code is marked, not deleted, so that a retry after a lost answer finds its own mark.
        mark = self._dynamo.chance.token(16)
        try:
            await self._dynamo.update(
                USE_CODE,
                code_key(code.tenant, code.phone_number),
                "SET #used_by = :mark",
                "#digest = :digest AND #expires_at = :expires_at"
                " AND attribute_not_exists(#used_by)",
                {":mark": mark, ":digest": code.digest, ":expires_at": code.expires_at},
            )
        except ConditionFailed as failed:
            return failed.item is not None and failed.item.get("used_by") == mark
        return True


class DynamoBudgets:
    """Stores budgets, one item for each allowance with the amount spent."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        for allowance in allowances:
            if allowance.most < 1:
                return allowance.name
        used_up = await self._count(SPEND, [_spend(allowance) for allowance in allowances])
        return allowances[used_up[0]].name if used_up else None

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        # A transaction is carried out only once even if its answer is lost. An amount that is
        # given back twice could be spent twice.
        left = list(allowances)
        while at_zero := await self._count(GIVE_BACK, [_give_back(each) for each in left]):
            left = [each for index, each in enumerate(left) if index not in at_zero]

    async def _count(self, pattern: Pattern, writes: Sequence[Update]) -> list[int]:
        """Carry out all writes or none; return the indexes of writes whose condition failed."""
        if not writes:
            return []
        async for _ in self._dynamo.retrying.attempts():
            try:
                await self._dynamo.transact(pattern, writes)
            except Canceled as canceled:
                reasons = enumerate(canceled.reasons)
                if failed := [index for index, reason in reasons if reason.is_condition]:
                    return failed
            else:
                return []
        raise StoreUnavailable

    async def add(self, allowance: Allowance, count: int) -> int:
        # An addition whose answer was lost may be counted twice. A slightly high sum is harmless.
        item = await self._dynamo.update(
            ADD_UP, _budget_key(allowance), _ADD, values=_added(allowance, count)
        )
        return int(item["spent"])

    async def spent(self, names: Sequence[str]) -> Mapping[str, int]:
        keys = [{"session_id": BUDGETS + name} for name in names]
        found = await self._dynamo.batch_get(READ_BUDGETS, keys)
        return {row["session_id"].removeprefix(BUDGETS): int(row["spent"]) for row in found}


def code_key(tenant: str, phone_number: str) -> Item:
    """Return the key of the item with the login code of a phone number."""
    return {"session_id": f"{CODES}{tenant}#{phone_number}"}


def _code_item(kept: KeptCode) -> Item:
    code = kept.code
    item: Item = {
        **code_key(code.tenant, code.phone_number),
        "digest": code.digest,
        "attempts": kept.attempts,
        "expires_at": code.expires_at,
        TTL: ttl_seconds(code.expires_at),
    }
    if code.asked_by is not None:
        item |= {"asked_by": code.asked_by, "attempts_elsewhere": kept.attempts_elsewhere}
    return item


def _code(tenant: str, phone_number: str, item: Item) -> LoginCode:
    return LoginCode(
        tenant=tenant,
        phone_number=phone_number,
        digest=item["digest"],
        expires_at=item["expires_at"],
        asked_by=item.get("asked_by"),
    )


def _budget_key(allowance: Allowance) -> Item:
    return {"session_id": BUDGETS + allowance.name}


def _added(allowance: Allowance, count: int) -> Item:
    expires_at = allowance.expires_at
    return {":count": count, ":expires_at": expires_at, ":ttl": ttl_seconds(expires_at)}


def _spend(allowance: Allowance) -> Update:
    return Update(
        "sessions",
        _budget_key(allowance),
        _ADD,
        "attribute_not_exists(#spent) OR #spent < :most",
        {**_added(allowance, 1), ":most": allowance.most},
    )


def _give_back(allowance: Allowance) -> Update:
    values = {":one": -1, ":zero": 0}
    return Update("sessions", _budget_key(allowance), "ADD #spent :one", "#spent > :zero", values)


_conforms_codes: type[LoginCodes] = DynamoLoginCodes
_conforms_budgets: type[Budgets] = DynamoBudgets
