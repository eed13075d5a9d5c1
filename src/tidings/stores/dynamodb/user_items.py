# SPDX-License-Identifier: Apache-2.0
"""Items of the users' table: profiles, and the claims of phone numbers.

A claim stands under `p#<tenant>#<number>`. No user has a `#` in the key.
"""

from typing import Final

from tidings.model.ids import UserKey
from tidings.model.times import revoked_up_to
from tidings.ports.people import User
from tidings.ports.revocations import Revocation
from tidings.stores.dynamodb.trouble import Item

CLAIMS: Final = "p#"
IS_USER: Final = "attribute_exists(#created_at)"
"""Of an item: no claim."""
REVOKES: Final = "(attribute_not_exists(#revoked_at) OR #revoked_at < :revoked_at)"
"""Of a user's item: what is revoked never counts again, whoever was first."""


def key_of(user: UserKey) -> Item:
    """Where a user stands."""
    return {"user_id": user}


def to_user(item: Item) -> User:
    """The user of an item."""
    return User(
        user=item["user_id"],
        display_name=item.get("display_name"),
        phone_number=item.get("phone_number"),
        created_at=item["created_at"],
        updated_at=item["updated_at"],
        last_seen_at=item.get("last_seen_at"),
        deactivated_at=item.get("deactivated_at"),
        revoked_at=item.get("revoked_at"),
    )


def revocation_of(user: UserKey, found: Item, now: int) -> Revocation:
    """What ends all that the user was given, as it goes into the feed."""
    return Revocation(kind="user", subject=user, at=revoked_up_to(now, found.get("revoked_at")))


def claim_key(tenant: str, phone_number: str) -> Item:
    """Where the claim of a number stands."""
    return {"user_id": f"{CLAIMS}{tenant}#{phone_number}"}


def claim_item(tenant: str, phone_number: str, owner: UserKey) -> Item:
    """The claim of a number."""
    return {**claim_key(tenant, phone_number), "owner": owner}
