# SPDX-License-Identifier: Apache-2.0
"""Export all facts as lines of JSON with a signed digest; check the ids in facts.

The same facts make the same bytes on every engine: an export contains neither its time nor the name
of an engine. Two exports can therefore be compared, and a move to another engine and back can be
verified.

Engines build keys from ids, so an import must refuse an id that no request could have stored.
"""

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, Protocol

import msgspec

from tidings.actions.export.files import bytes_of, has_good_names
from tidings.model import ids
from tidings.model.entries import Person
from tidings.model.ids import UserKey, tenant_of
from tidings.model.limits import JOB_USERS_MAX
from tidings.model.notifications import CATEGORY, INBOX
from tidings.model.webhooks import WEBHOOK
from tidings.ports.attachments import Blobs
from tidings.ports.export_engines import ExportProgress, Source
from tidings.ports.export_facts import (
    AuditFact,
    BlockFact,
    ChatFact,
    EntryFact,
    ExportEnd,
    ExportStart,
    Fact,
    Line,
    MemberFact,
    ReactionFact,
    ReportFact,
    RequestKeyFact,
    SendKeyFact,
)
from tidings.ports.export_feature_facts import PushDeviceFact, UploadFact
from tidings.ports.export_inbox_facts import (
    DeadLetterFact,
    EscalationFact,
    HeldJobFact,
    JobFact,
    NotificationFact,
)
from tidings.ports.secrets import MasterKey, MasterKeys

_USER: Final = re.compile(f"{ids.TENANT.pattern}:{ids.USER.pattern}")
_SENDER: Final = re.compile(rf"{_USER.pattern}|{ids.TENANT.pattern}:{ids.TENANT_ITSELF}")
_AUTHOR: Final = re.compile(rf"{_SENDER.pattern}|{ids.TENANT.pattern}:\*")
"""Author of content: a user, the tenant itself as the sender of messages, or `*` for its
inboxes."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
"""Names made by the server: ULIDs, digests, random marks."""

_PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "tenant": ids.TENANT,
    "user_id": _USER,
    "owner": _USER,
    "sender": _SENDER,
    "inviter": _USER,
    "blocked": _USER,
    "reporter": _USER,
    "reported": _SENDER,
    "creator": _SENDER,
    "author": _AUTHOR,
    "chat_id": ids.CHAT,
    "attachment_id": ids.CHAT,
    "session_id": ids.SESSION,
    "client_message_id": ids.CLIENT_MESSAGE_ID,
    "inbox": INBOX,
    "webhook_id": WEBHOOK,
    "category": CATEGORY,
    "key_id": _NAME,
    "master_key_id": _NAME,
    "notification_id": _NAME,
    "aside_id": _NAME,
    "entry_id": _NAME,
    "subject": _NAME,
    "mark": _NAME,
}

Check = Callable[[str], object]

VERSION: Final = 5
VERSIONS_READ: Final = frozenset({1, 2, 3, 4, VERSION})
"""Versions that can be imported; the earlier versions only lack some kinds and fields of facts."""
LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Maximum length of a line: ten times the largest entry. It prevents reading a whole file without
line ends into memory."""
_EXPORT: Final = b"tidings export\0"
BACKUP: Final = b"tidings backup\0"
"""Purpose of a signature: a backup cannot pass for an export, nor the reverse."""


def bad_id(fact: Fact, chat: ChatFact | None) -> str | None:
    """Return the name of a field whose id is malformed or belongs to another tenant, or None."""
    for name, is_good in _checks(type(fact)):
        value = getattr(fact, name)
        if value is None or (isinstance(fact, AuditFact) and not value):
            continue  # an audit entry about the deployment names no tenant
        if not is_good(value):
            return name
    if isinstance(fact, DeadLetterFact):
        return bad_id(fact.job, None)
    if isinstance(fact, JobFact | HeldJobFact | EscalationFact):
        return None if all(map(ids.USER.fullmatch, fact.users)) else "users"
    if isinstance(fact, EntryFact) and not all(map(_is_person, fact.people)):
        return "people"
    if isinstance(fact, UploadFact) and not has_good_names(fact):
        return "parts"
    if any(tenant_of(user) != tenant for user, tenant in _of_one_tenant(fact, chat)):
        return "tenant"
    return None


@cache
def _checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, Check], ...]:
    """Return the fields to check in facts of this kind, each with its check."""
    patterns = _PATTERNS
    if kind is RequestKeyFact:
        patterns = {**patterns, "user_id": _SENDER}  # a tenant creates chats too
    if kind is PushDeviceFact:
        patterns = {**patterns, "device": ids.DEVICE}  # the device of a session has any name
    return tuple(
        (name, patterns[name].fullmatch) for name in kind.__struct_fields__ if name in patterns
    )


def _is_person(person: Person) -> bool:
    return _USER.fullmatch(person.user) is not None


def _of_one_tenant(fact: Fact, chat: ChatFact | None) -> Iterable[tuple[UserKey, str]]:
    """Yield the users in a fact, each with the tenant that the user must belong to."""
    match fact:
        case ChatFact():
            yield fact.creator, fact.tenant
        case ReportFact():
            yield fact.reporter, fact.tenant
            yield fact.reported, fact.tenant
        case BlockFact():
            yield fact.blocked, tenant_of(fact.user_id)
        case MemberFact() | ReactionFact() if chat is not None:
            yield fact.user_id, chat.tenant
        case EntryFact() if chat is not None:
            yield fact.sender, chat.tenant
            for person in fact.people:
                yield person.user, chat.tenant
            for name in fact.mentions:
                if name != "*":
                    yield ids.user_key(chat.tenant, name), chat.tenant
        case SendKeyFact() if chat is not None:
            yield fact.sender, chat.tenant
        case _:
            return


class Tally:
    """Counts the facts of an export, and computes the digest of its lines."""

    def __init__(self) -> None:
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Count and digest a line of any kind."""
        self.lines += 1
        self._digest.update(line)

    def count(self, fact: Fact) -> None:
        """Count a fact by its kind."""
        tag = fact.__struct_config__.tag
        assert isinstance(tag, str), "every fact has a name"
        self.counts[tag] += 1

    @property
    def progress(self) -> ExportProgress:
        """The number of lines so far, and their digest."""
        return ExportProgress(self.lines, self._digest.hexdigest())

    def closing(self) -> ExportEnd:
        """Return the last line of the export, unsigned."""
        return ExportEnd(counts=dict(sorted(self.counts.items())), sha256=self._digest.hexdigest())


encode = msgspec.json.Encoder().encode


class Unproven(Exception):
    """The file cannot be trusted; the text gives the reason."""


class Signed(Protocol):
    """The end of a file, with a digest of the rest and its signature."""

    @property
    def sha256(self) -> str: ...
    @property
    def master_key_id(self) -> str | None: ...
    @property
    def mac(self) -> str | None: ...


class ExportProof:
    """Signs an export or a backup with the current master key, and checks a signature with any
    available key."""

    def __init__(self, master: MasterKeys, purpose: bytes = _EXPORT) -> None:
        self._master = master
        self._purpose = purpose

    def sign(self, sha256: str) -> tuple[str, str]:
        """Return the id of the master key, and its MAC of the digest.

        Raises:
            Unproven: There is no master key.
        """
        current = self._master.current
        if current is None:
            raise Unproven("the master key is missing: the export cannot be signed without it")
        return current.key_id, self._mac(current, sha256)

    def check(self, closing: Signed) -> None:
        """Check a signature; the caller has already checked the digest.

        Raises:
            Unproven: The file is not signed, was changed, or was signed with a master key that is
                not available.
        """
        if closing.master_key_id is None or closing.mac is None:
            raise Unproven("it has no signature at its end")
        for key in self._available():
            if key.key_id == closing.master_key_id:
                if not hmac.compare_digest(
                    self._mac(key, closing.sha256).encode(), closing.mac.encode()
                ):
                    raise Unproven("it was changed after it was written")
                return
        raise Unproven(
            f"it is signed with the master key {closing.master_key_id}, which is not available: "
            "give the new deployment the master key of the old deployment first"
        )

    def _available(self) -> tuple[MasterKey, ...]:
        current = self._master.current
        return (*self._master.previous, *([current] if current is not None else []))

    def _mac(self, key: MasterKey, sha256: str) -> str:
        derived = hmac.digest(key.secret, self._purpose, "sha256")
        return hmac.digest(derived, sha256.encode(), "sha256").hex()


class ChangedDuringExport(Exception):
    """Chats or inboxes changed during the export, so the export cannot be used."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{len(names)} chats or inboxes changed during the export")
        self.names = names


class Exported(msgspec.Struct, frozen=True):
    """A finished export."""

    closing: ExportEnd
    jobs_elsewhere: int
    """Number of unfinished delivery jobs outside the store, which the export does not contain."""


async def export_all(
    source: Source,
    now: int,
    write: Callable[[bytes], object],
    report: Callable[[Tally], None],
    proof: ExportProof | None = None,
    blobs: Blobs | None = None,
) -> Exported:
    """Write every fact that is valid at `now`, then a last line with the counts of facts.

    `report` is called with the tally after each batch. The last line is signed if `proof` is given,
    and the bytes of files are written if `blobs` is given.

    Raises:
        ChangedDuringExport: Chats or inboxes changed. The file has no last line, so no import
            accepts it.
    """
    tally = Tally()
    not_done = 0
    write(_line(tally, ExportStart(version=VERSION, epoch=source.epoch)))
    async for facts in source.facts(now):
        lines: list[bytes] = []
        for fact in facts:
            tally.count(fact)
            not_done += _not_done(fact)
            lines.append(_line(tally, fact))
            if isinstance(fact, UploadFact) and blobs is not None:
                write(b"".join(lines))
                lines.clear()
                async for some in bytes_of(blobs, fact):
                    tally.count(some)
                    write(_line(tally, some))
        write(b"".join(lines))
        report(tally)
    if changed := await source.changed():
        raise ChangedDuringExport(changed)
    closing = tally.closing()
    if proof is not None:
        key_id, mac = proof.sign(closing.sha256)
        closing = msgspec.structs.replace(closing, master_key_id=key_id, mac=mac)
    write(_line(tally, closing))
    return Exported(closing, max(0, not_done))


def _not_done(fact: Fact) -> int:
    """Return what a fact adds to the number of delivery jobs that are unfinished and not exported.

    A notification adds the number of its unfinished delivery jobs. An exported delivery job
    subtracts one.
    """
    match fact:
        case NotificationFact() if fact.everyone or fact.restored or fact.failed:
            return 0
        case NotificationFact() if fact.box is not None:
            return -(-fact.recipients // JOB_USERS_MAX) - len(fact.finished_jobs)
        case JobFact() | HeldJobFact() | DeadLetterFact():
            return -1
        case _:
            return 0


def _line(tally: Tally, line: Line) -> bytes:
    text = encode(line) + b"\n"
    tally.add(text)
    return text
