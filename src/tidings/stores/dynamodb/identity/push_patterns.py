# SPDX-License-Identifier: Apache-2.0
"""The access patterns of push: registrations, settings of tenants, and claims of notices."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_TENANTS: Final = ("tenants",)

READ_PUSH_DEVICES: Final = Pattern(
    "read_push_devices", "Query", _TENANTS, "the devices of a user for push", strong=True
)
FIND_PUSH_DEVICES: Final = Pattern(
    "find_push_devices", "BatchGetItem", _TENANTS, "a notice to everybody", strong=True
)
FIND_PUSH_TARGET: Final = Pattern(
    "find_push_target", "GetItem", _TENANTS, "which device has a push target", strong=True
)
READ_PUSH_SETTINGS: Final = Pattern(
    "read_push_settings", "GetItem", _TENANTS, "the push settings of a tenant", strong=True
)
CLAIM_PUSH: Final = Pattern(
    "claim_push", "UpdateItem", ("delivery_state",), "a push notice is about to be sent"
)
READ_PUSH_CLAIM: Final = Pattern(
    "read_push_claim",
    "GetItem",
    ("delivery_state",),
    "whether a push notice is still to be sent, before another attempt",
    strong=True,
)
CLEAR_PUSH: Final = Pattern(
    "clear_push", "UpdateItem", ("delivery_state",), "the messages of a push notice are read"
)
READ_MUTE: Final = Pattern(
    "read_mute", "GetItem", ("chat_memberships",), "whether a member muted a chat", strong=True
)
