# SPDX-License-Identifier: Apache-2.0
"""Registering the public keys with which a tenant signs its users' tokens itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidings.actions.identity import Caller, require_tenant
from tidings.actions.json_web_keys import BadKey, JsonWebKey, JsonWebKeySet, read_key
from tidings.actions.own_keys import OwnKeys, own_key_id, registered
from tidings.actions.signing_keys import KEY_ID
from tidings.actions.users import check_visible_text
from tidings.model import limits
from tidings.model.refusals import Invalid, KeyNotFound, TenantNotFound, TooLarge
from tidings.ports.people import Tenants, TokenIssuer
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class TokenIssuerVerbs:
    """What a tenant does with its own keys. Those taken away or changed end their tokens."""

    tenants: Tenants
    own: OwnKeys
    clock: Clock

    async def get(self, caller: Caller, tenant: str) -> TokenIssuer:
        """What the tenant has registered.

        Raises:
            KeyNotFound: Nothing.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        found = await self.tenants.issuer(tenant)
        if found is not None:
            return found
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        raise KeyNotFound("no keys are registered")

    async def put(
        self, caller: Caller, tenant: str, issuer: str | None, keys: Sequence[Mapping[str, Any]]
    ) -> TokenIssuer:
        """Replace what is registered.

        Raises:
            Invalid: A key is none that we take.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        if issuer is not None:
            check_visible_text("issuer", issuer)
        document = msgspec.json.encode(JsonWebKeySet(_read(keys)))
        if len(document) > limits.ISSUER_BYTES_MAX:
            raise TooLarge(f"keys: at most {limits.ISSUER_BYTES_MAX} bytes")
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        now = self.clock.now()
        wanted = TokenIssuer(tenant=tenant, issuer=issuer, document=document, updated_at=now)
        before = await self.tenants.issuer(tenant)
        await self.tenants.put_issuer(wanted, _ended(before, wanted))
        self.own.forget(tenant)
        return wanted

    async def remove(self, caller: Caller, tenant: str) -> None:
        """Take them all away.

        Raises:
            KeyNotFound: There are none.
        """
        before = await self.get(caller, tenant)
        if not await self.tenants.remove_issuer(tenant, _ended(before, None), self.clock.now()):
            raise KeyNotFound("no keys are registered")
        self.own.forget(tenant)


def _read(keys: Sequence[Mapping[str, Any]]) -> list[JsonWebKey]:
    if not 1 <= len(keys) <= limits.ISSUER_KEYS_MAX:
        raise Invalid(f"keys: 1 to {limits.ISSUER_KEYS_MAX}", "/keys")
    found: dict[str, JsonWebKey] = {}
    for place, given in enumerate(keys):
        try:
            key = read_key(given)
        except BadKey as bad:
            raise Invalid(f"keys: {bad}", f"/keys/{place}") from None
        if key.kid in found:
            raise Invalid("keys: each has a kid of its own", f"/keys/{place}/kid")
        if KEY_ID.fullmatch(key.kid) is not None:
            raise Invalid("keys: this kid looks like one of ours", f"/keys/{place}/kid")
        found[key.kid] = key
    return list(found.values())


def _ended(before: TokenIssuer | None, after: TokenIssuer | None) -> list[str]:
    """The ids of keys whose tokens do not count any more, or have to say something else now."""
    if before is None:
        return []
    stays = registered(after) if after is not None and after.issuer == before.issuer else []
    gone = [key for key in registered(before) if key not in stays]
    return [own_key_id(before.tenant, key.kid) for key in gone]
