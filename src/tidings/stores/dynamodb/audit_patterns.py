# SPDX-License-Identifier: Apache-2.0
"""The access patterns of the audit trail. None of them deletes: nobody gets the right to."""

from typing import Final

from tidings.stores.dynamodb.access import Pattern

_AUDIT: Final = ("audit",)

APPEND_AUDIT: Final = Pattern(
    "append_audit", "PutItem", _AUDIT, "an administrative act is recorded before it is done"
)
COMPLETE_AUDIT: Final = Pattern(
    "complete_audit", "UpdateItem", _AUDIT, "what came of an administrative act"
)
READ_AUDIT: Final = Pattern(
    "read_audit", "Query", _AUDIT, "a tenant's acts of a month, newest first", strong=True
)
READ_ALL_AUDIT: Final = Pattern(
    "read_all_audit",
    "Query",
    _AUDIT,
    "all acts of a month, newest first; an export reads them up",
    index="all_acts-index",
)
