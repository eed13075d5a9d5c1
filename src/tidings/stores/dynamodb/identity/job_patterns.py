# SPDX-License-Identifier: Apache-2.0
"""Access patterns for the jobs of tenants, and for the parts of exports."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

CREATE_JOB: Final = Pattern(
    "create_job", "TransactWriteItems", ("tenants",), "a job of a tenant, listed as unfinished"
)
FIND_JOB: Final = Pattern(
    "find_job", "GetItem", ("tenants",), "a job of a tenant and its progress", strong=True
)
LIST_JOBS: Final = Pattern(
    "list_jobs", "Query", ("tenants",), "unfinished jobs of tenants", strong=True
)
MOVE_JOB: Final = Pattern(
    "move_job", "UpdateItem", ("tenants",), "record the progress of a job and renew its lease"
)
UNLIST_JOB: Final = Pattern(
    "unlist_job", "DeleteItem", ("tenants",), "a job is finished, or its result has expired"
)
KEEP_EXPORT_PART: Final = Pattern(
    "keep_export_part", "PutItem", ("sessions",), "a part of a person's export"
)
READ_EXPORT_PART: Final = Pattern(
    "read_export_part", "GetItem", ("sessions",), "a part of a person's export", strong=True
)
