# SPDX-License-Identifier: Apache-2.0
"""The access patterns of the audit trail. None of them deletes: nobody gets the right to."""

from typing import Final

from tidings.stores.dynamodb.access import Pattern

_AUDIT: Final = ("audit",)

APPEND_AUDIT: Final = Pattern(
    "append_audit", "PutItem", _AUDIT, "record an administrative action before it is carried out"
)
COMPLETE_AUDIT: Final = Pattern(
    "complete_audit", "UpdateItem", _AUDIT, "record the outcome of an administrative action"
)
READ_AUDIT: Final = Pattern(
    "read_audit", "Query", _AUDIT, "a tenant's actions in one month, newest first", strong=True
)
READ_ALL_AUDIT: Final = Pattern(
    "read_all_audit",
    "Query",
    _AUDIT,
    "all actions in one month, newest first; an export reads them in ascending order",
    index="all_acts-index",
)
