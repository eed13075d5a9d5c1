# SPDX-License-Identifier: Apache-2.0
"""Keys that seal content: changing the master key, destroying what seals one author's content."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, require_root
from tidings.api.callers import IdentityVerbs
from tidings.api.operations import operation
from tidings.model.refusals import Conflict, TenantNotFound, UserNotFound
from tidings.ports.secrets import KeyRefused

TAG: Final = "Keys"


class RotationRecord(msgspec.Struct):
    """A finished rotation: which master key there is now, and how many secrets it took over."""

    master_key_id: str
    rewrapped: int


class ErasureRecord(msgspec.Struct):
    """How many data keys were destroyed; none if the user never wrote anything."""

    destroyed: int


class RotationRefused(Conflict):
    """There is no next master key, or a secret does not open under the present one."""

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
    """Everything goes on meanwhile. A rotation that was stopped is taken up where it stood."""
    require_root(caller)
    try:
        rotated = await identity.rotate_keys()
    except KeyRefused as reason:
        raise RotationRefused(str(reason)) from None
    return RotationRecord(rotated.master_key_id, rotated.secrets)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}/content",
    tag=TAG,
    summary="Erase what a user wrote",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def erase_user_content(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs
) -> ErasureRecord:
    """All of it, everywhere, for ever: its keys are destroyed, and every message of the user reads
    `erased`. The user stays and may write anew.
    """
    return ErasureRecord(await identity.erase_user_content(caller, tenant, user_id))


OPERATIONS: Final = (rotate_keys, erase_user_content)
