# SPDX-License-Identifier: Apache-2.0
"""Reports: users tell their tenant of messages and of other users.

A report of a message contains a copy of the encrypted message as it was then. It is encrypted with
the data key of its author, like the message itself, so the erasure of the author also erases it.
"""

from typing import Final, Literal

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import DAY_MS, SECOND_MS

ReportReason = Literal["spam", "abuse", "illegal", "other"]
ReportState = Literal["open", "resolved", "dismissed"]
ReportAction = Literal["redact", "remove", "ban"]

REPORT_STATES: Final[tuple[ReportState, ...]] = ("open", "resolved", "dismissed")
REPORT_MS: Final = 90 * DAY_MS
"""Time after which a report is removed."""
REPORTING_MS: Final = 10 * 60 * SECOND_MS
"""Time for which the files of a message are kept while it is being reported."""
USER_DAY_REPORTS_MAX: Final = 50
"""Number of reports that a user can make per day."""
REPORT_TEXT_CHARS_MAX: Final = 1_000
"""Maximum length of the comment of a user, and of the note of the tenant."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report of a message or of a user."""

    report_id: str
    """A ULID."""
    tenant: str
    state: ReportState = "open"
    reporter: UserKey
    reported: UserKey
    """The user, or the sender of the message."""
    reason: ReportReason
    created_at: int
    expires_at: int
    chat_id: ChatId | None = None
    """None if the report is not about a message."""
    sequence: int = 0
    client_message_id: str | None = None
    content_type: str | None = None
    sent_at: int = 0
    box: bytes | None = None
    """The encrypted message; None if its content was gone already."""
    box_key: int = 0
    comment: bytes | None = None
    """The encrypted comment; its data key is that of the reporter."""
    comment_key: int = 0
    note: bytes | None = None
    """The encrypted note of the tenant, with a data key of the tenant itself."""
    note_key: int = 0
    action: ReportAction | None = None
    """What the tenant did last because of the report."""
    updated_at: int | None = None
    files: bytes | None = None
    """The attachments of the message, as the entry stores them; None if it has none."""

    @property
    def subject(self) -> str:
        """What the report is about: a message or a user. A user reports each only once."""
        return self.reported if self.chat_id is None else f"{self.chat_id}.{self.sequence}"

    def message(self) -> Entry | None:
        """Return the copy of the message, still encrypted; None if there is none."""
        if self.chat_id is None or self.box is None:
            return None
        return Entry(
            chat_id=self.chat_id,
            sequence=self.sequence,
            kind="message",
            sender=self.reported,
            created_at=self.sent_at,
            client_message_id=self.client_message_id,
            content_type=self.content_type,
            box=self.box,
            box_key=self.box_key,
            files=self.files,
        )
