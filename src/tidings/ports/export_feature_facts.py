# SPDX-License-Identifier: Apache-2.0
"""Facts of an export about files, jobs, erasures, push and webhooks.

They are part of the file format that `export_facts` describes. The bytes of a file follow its
upload, encrypted as they are stored; a part that is not stored has no bytes in the export either.
Targets and credentials of push stay encrypted. The events that webhook endpoints are owed are not
exported.
"""

import msgspec

from tidings.model.attachments import BlobPart
from tidings.model.ids import ChatId, UserKey
from tidings.model.push import ContentRule
from tidings.model.webhooks import DisabledBy
from tidings.ports.erasing import ErasureKind
from tidings.ports.export_inbox_facts import FactBase
from tidings.ports.tenant_jobs import JobKind, JobState


class UploadFact(FactBase, frozen=True, kw_only=True, tag="upload"):
    """An upload, or the attachment of a message. The bytes of its parts follow."""

    owner: UserKey
    attachment_id: str
    size: int
    box: bytes
    box_key: int
    created_at: int
    expires_at: int
    parts: tuple[BlobPart, ...] = ()
    thumbnail: BlobPart | None = None
    chat_id: ChatId | None = None
    sequence: int = 0
    scheduled_id: str | None = None
    kept_until: int | None = None


class BytesFact(FactBase, frozen=True, kw_only=True, tag="bytes"):
    """Stored bytes of a part of the upload before it, from `start` on."""

    attachment_id: str
    name: str
    start: int = 0
    data: bytes


FileFacts = UploadFact | BytesFact


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


class PushDeviceFact(FactBase, frozen=True, kw_only=True, tag="push_device"):
    """A device that is registered for push; see `model.push`."""

    user_id: UserKey
    device: str
    provider: str
    app: str | None = None
    box: str
    digest: str
    session_id: str | None = None
    created_at: int


class PushSettingsFact(FactBase, frozen=True, kw_only=True, tag="push_settings"):
    """The push settings of a tenant."""

    tenant: str
    content: ContentRule
    providers: tuple[str, ...] = ()
    box: str
    updated_at: int


PushFacts = PushDeviceFact | PushSettingsFact


class WebhookFact(FactBase, frozen=True, kw_only=True, tag="webhook"):
    """A webhook endpoint; see `model.webhooks`."""

    tenant: str
    webhook_id: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    since: int
    salt: str
    previous_salt: str | None = None
    previous_until: int = 0
    disabled_at: int | None = None
    disabled_by: DisabledBy | None = None
    failing_since: int | None = None
    is_resuming: bool = False
    resumes_from: int | None = None
    created_at: int
    updated_at: int
    revision: int = 1
