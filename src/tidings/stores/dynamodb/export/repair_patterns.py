# SPDX-License-Identifier: Apache-2.0
"""Access patterns for the verification and the repair of tables."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

SCAN_LISTINGS: Final = Pattern(
    "scan_listings", "Scan", ("listings",), "a verification looks for missing list items"
)
SCAN_RECEIPTS: Final = Pattern(
    "scan_receipts",
    "Scan",
    ("delivery_state",),
    "a verification looks for receipts without a member",
)
RENEW_EPOCH: Final = Pattern(
    "renew_epoch", "UpdateItem", ("tenants",), "restored tables get a new epoch"
)
REPAIR_CHAT: Final = Pattern(
    "repair_chat", "UpdateItem", ("chats",), "a repair corrects the members in a chat's item"
)
