# SPDX-License-Identifier: Apache-2.0
"""Facts of an export about jobs of tenants, and about the ledger of erasures."""

import msgspec

from tidings.ports.erasing import ErasureKind
from tidings.ports.export_inbox_facts import FactBase
from tidings.ports.tenant_jobs import JobKind, JobState


class TenantJobFact(FactBase, frozen=True, kw_only=True, tag="tenant_job"):
    """A job of a tenant, finished or not."""

    tenant: str
    job_id: str
    kind: JobKind
    subject: str
    phase: str
    state: JobState
    pending: tuple[str, ...] = ()
    cursor: str | None = None
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    result: str | None = None
    created_at: int
    updated_at: int


class ErasureFact(FactBase, frozen=True, kw_only=True, tag="erasure"):
    """The last erasure of a subject in the ledger."""

    kind: ErasureKind
    subject: str
    at: int
