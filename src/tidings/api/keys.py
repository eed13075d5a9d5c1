# SPDX-License-Identifier: Apache-2.0
"""Content keys: rotating the master key, and destroying the keys of one author."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, require_root
from tidings.api.callers import IdentityVerbs
from tidings.api.operations import operation
from tidings.model.refusals import Conflict, TenantNotFound, UserNotFound
from tidings.model.setup_error import SetupError

TAG: Final = "Keys"


class RotationRecord(msgspec.Struct):
    """A finished rotation: the id of the new master key, and how many secrets it now protects."""

    master_key_id: str
    rewrapped: int


class ErasureRecord(msgspec.Struct):
    """How many data keys were destroyed; 0 if the user never wrote anything."""

    destroyed: int


class RotationRefused(Conflict):
    """There is no next master key, or a secret cannot be opened with the current one."""

    code, title = "keys.refused", "The master key cannot be rotated now"


@operation(
    "POST",
    "/v1/keys/rotate",
    tag=TAG,
    summary="Rotate the master key",
    key="root",
    refusals=(RotationRefused,),
)
async def rotate_keys(caller: Caller, identity: IdentityVerbs) -> RotationRecord:
    """Replace the master key while the server runs. A rotation that was interrupted continues where
    it stopped."""
    require_root(caller)
    try:
        rotated = await identity.rotate_keys()
    except SetupError as reason:
        raise RotationRefused(str(reason)) from None
    return RotationRecord(rotated.master_key_id, rotated.secrets)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}/content",
    tag=TAG,
    summary="Erase the content of a user",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def erase_user_content(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs
) -> ErasureRecord:
    """Destroy the content keys of a user: everything the user wrote becomes unreadable for good,
    and every message of the user shows `erased`. The user remains and can write again."""
    return ErasureRecord(await identity.erase_user_content(caller, tenant, user_id))


OPERATIONS: Final = (rotate_keys, erase_user_content)
