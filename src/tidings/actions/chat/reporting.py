# SPDX-License-Identifier: Apache-2.0
"""Report messages and users to the tenant; list reports and act on them as the tenant."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from tidings.actions.chat.members import RemoveAsTenant
from tidings.actions.chat.message_changes import RedactAsTenant, find_message
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.bans import FOR_EVER, BanUser
from tidings.actions.identity.caller import Caller, listing_owner, require_tenant
from tidings.model import limits
from tidings.model.attachments import attached_ids
from tidings.model.entries import Entry
from tidings.model.ids import REPORT, ChatId, UserKey, tenant_itself, tenant_of, ulid_time, user_id
from tidings.model.refusals import (
    ChatBusy,
    Invalid,
    MemberNotFound,
    RateLimited,
    ReportNotFound,
    UserNotFound,
)
from tidings.model.reports import (
    REPORT_MS,
    REPORTING_MS,
    USER_DAY_REPORTS_MAX,
    Report,
    ReportAction,
    ReportReason,
    ReportState,
)
from tidings.ports.attachments import Uploads
from tidings.ports.log import Log
from tidings.ports.moderation import Reports
from tidings.ports.people import Tenants, UserStore
from tidings.ports.sessions import Allowance, Budgets
from tidings.ports.webhooks import RaiseEvent
from tidings.ports.world import Chance, Clock, new_ulid

_CHANGES_MAX: Final = 5
"""Maximum number of attempts to change a report that others change at the same time."""


class MakeReport(msgspec.Struct, frozen=True):
    """Report a message or a user to the tenant. The reported user does not learn of it."""

    reports: Reports
    log: Log
    uploads: Uploads
    users: UserStore
    vault: Vault
    budgets: Budgets
    events: RaiseEvent
    clock: Clock
    chance: Chance

    async def of_message(
        self,
        reporter: UserKey,
        chat: ChatId,
        sequence: int,
        reason: ReportReason,
        comment: str | None,
    ) -> str:
        """Report a message that the reporter can see; return the id of the report.

        Raises:
            ChatNotFound: The reporter is not a member of the chat.
            MessageNotFound: The reporter sees no such message.
            Invalid: The reporter sent the message.
            RateLimited: The reporter has made too many reports today.
        """
        message = await find_message(self.log, reporter, chat, sequence)
        _check_other(reporter, message.sender)
        if message.files is not None and not self._is_gone(message):
            await self._keep(message.sender, message.files, self.clock.now() + REPORTING_MS)
            # If it still has its content, a later redaction finds that its files are kept.
            message = await find_message(self.log, reporter, chat, sequence)
        is_gone = self._is_gone(message)
        copied = {
            "chat_id": chat,
            "sequence": sequence,
            "client_message_id": message.client_message_id,
            "content_type": message.content_type,
            "sent_at": message.created_at,
            "box": None if is_gone else message.box,
            "box_key": 0 if is_gone else message.box_key,
            "files": None if is_gone else message.files,
        }
        return await self._add(reporter, message.sender, reason, comment, copied)

    async def of_user(
        self, reporter: UserKey, user: UserKey, reason: ReportReason, comment: str | None
    ) -> str:
        """Report a user of the tenant; return the id of the report.

        Raises:
            UserNotFound: The tenant has no such user.
            Invalid: The reporter is this user.
            RateLimited: The reporter has made too many reports today.
        """
        if await self.users.missing([user]):
            raise UserNotFound
        _check_other(reporter, user)
        return await self._add(reporter, user, reason, comment, {})

    def _is_gone(self, message: Entry) -> bool:
        return message.redacted or message.expired(self.clock.now())

    async def _add(
        self,
        reporter: UserKey,
        reported: UserKey,
        reason: ReportReason,
        comment: str | None,
        copied: Mapping[str, object],
    ) -> str:
        now = self.clock.now()
        await self._spend(reporter, now)
        report_id = new_ulid(self.clock, self.chance)
        fields = dict(copied)
        if comment:
            sealed = await self.vault.seal_text(reporter, _comment_of(report_id), comment)
            fields |= {"comment": sealed.box, "comment_key": sealed.box_key}
        report = Report(
            report_id=report_id,
            tenant=tenant_of(reporter),
            reporter=reporter,
            reported=reported,
            reason=reason,
            created_at=now,
            expires_at=now + REPORT_MS,
            **fields,  # type: ignore[arg-type]
        )
        return await self._store(report)

    async def _store(self, report: Report) -> str:
        """Store the report, keep the files of its message as long, and raise an event.

        A repeat does this too, because the process may have died before, but it keeps the files no
        longer than the first report.
        """
        report_id = await self.reports.add(report)
        await self._keep(report.reported, report.files, ulid_time(report_id) + REPORT_MS)
        await self._raise(report, report_id)
        return report_id

    async def _keep(self, sender: UserKey, files: bytes | None, until: int) -> None:
        for name in attached_ids(files):
            await self.uploads.keep_bytes(sender, name, until)

    async def _raise(self, report: Report, report_id: str) -> None:
        data = {
            "report_id": report_id,
            "reason": report.reason,
            "reporter_id": user_id(report.reporter),
            "user_id": user_id(report.reported),
            "chat_id": report.chat_id,
            "sequence": None if report.chat_id is None else report.sequence,
        }
        await self.events(report.tenant, "report.created", data)

    async def _spend(self, reporter: UserKey, now: int) -> None:
        day = now // limits.DAY_MS
        ends_at = (day + 1) * limits.DAY_MS
        name = f"reports:{reporter}:{day}"
        allowance = Allowance(name=name, most=USER_DAY_REPORTS_MAX, expires_at=ends_at)
        if await self.budgets.spend([allowance]) is not None:
            raise RateLimited("too many reports were made today", ends_at - now)


class OpenedReport(msgspec.Struct, frozen=True):
    """A report with its decrypted texts; a text is None if there is none, or if it was erased."""

    report: Report
    message: Entry | None
    """The copy of the message, with its content or the reason why it is gone."""
    comment: str | None
    note: str | None


class ReadReports(msgspec.Struct, frozen=True):
    """Show reports to their tenant."""

    reports: Reports
    tenants: Tenants
    vault: Vault
    cursors: Cursors
    clock: Clock

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        state: ReportState | None,
        cursor: str | None,
        limit: int,
    ) -> tuple[list[OpenedReport], str | None]:
        """Return a page of reports, newest first, and the cursor of the next page.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            CursorInvalid: The cursor is not for this list.
        """
        owner = await listing_owner(self.tenants, caller, tenant)
        purpose = f"reports {state or ''}"
        below = self.cursors.position(purpose, owner, cursor)
        page = await self.reports.page(
            tenant, state, below=below, limit=limit, now=self.clock.now()
        )
        opened = [await self.opened(report) for report in page.rows]
        return opened, self.cursors.after(purpose, owner, page.end)

    async def one(self, caller: Caller, tenant: str, report_id: str) -> OpenedReport:
        """Return one report.

        Raises:
            ReportNotFound: The tenant has no such report.
        """
        require_tenant(caller, tenant)
        return await self.opened(await self.find(tenant, report_id))

    async def find(self, tenant: str, report_id: str) -> Report:
        """Return a report as it is stored.

        Raises:
            ReportNotFound: The tenant has no such report.
        """
        found = None
        if REPORT.fullmatch(report_id) is not None:
            found = await self.reports.find(tenant, report_id, self.clock.now())
        if found is None:
            raise ReportNotFound
        return found

    async def opened(self, report: Report) -> OpenedReport:
        """Return a report with its decrypted texts."""
        message = report.message()
        if message is not None:
            await self.vault.open([message], self.clock.now())
        itself = tenant_itself(report.tenant)
        return OpenedReport(
            report,
            message,
            await self._text(
                report.reporter, _comment_of(report.report_id), report.comment, report.comment_key
            ),
            await self._text(itself, _note_of(report.report_id), report.note, report.note_key),
        )

    async def _text(
        self, author: UserKey, bound_to: str, box: bytes | None, box_key: int
    ) -> str | None:
        if box is None:
            return None
        return await self.vault.open_text(author, bound_to, Sealed(box, box_key, b""))


class ChangeReport(msgspec.Struct, frozen=True):
    """Change the state of a report, and act on the message or the user, as the tenant."""

    reading: ReadReports
    redact: RedactAsTenant
    remove: RemoveAsTenant
    ban: BanUser

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        report_id: str,
        *,
        state: ReportState | None,
        note: str | None,
        action: ReportAction | None,
    ) -> OpenedReport:
        """Act first, then change the report, so that a report is not closed if the action fails.

        None leaves a field as it is.

        Raises:
            ReportNotFound: The tenant has no such report.
            Invalid: The action needs a message, and the report is about a user; or it needs a
                user, and the tenant itself wrote the message.
        """
        require_tenant(caller, tenant)
        report = await self.reading.find(tenant, report_id)
        if action is not None:
            await self._act(caller, report, action)
        changed: dict[str, object] = {"updated_at": self.reading.clock.now()}
        if state is not None:
            changed["state"] = state
        if action is not None:
            changed["action"] = action
        if note is not None:
            itself = tenant_itself(tenant)
            sealed = await self.reading.vault.seal_text(itself, _note_of(report_id), note)
            changed |= {"note": sealed.box, "note_key": sealed.box_key}
        for _ in range(_CHANGES_MAX):
            after = msgspec.structs.replace(report, **changed)
            if await self.reading.reports.change(report, after):
                return await self.reading.opened(after)
            report = await self.reading.find(tenant, report_id)
        raise ChatBusy("others change the report at the same time")

    async def _act(self, caller: Caller, report: Report, action: ReportAction) -> None:
        if action != "redact" and report.reported == tenant_itself(report.tenant):
            raise Invalid(f"action: {action} needs a user, and the tenant wrote this", "/action")
        if action == "ban":
            await self.ban(report.reported, FOR_EVER)
            return
        if report.chat_id is None:
            raise Invalid(f"action: {action} needs the report of a message", "/action")
        if action == "redact":
            await self.redact(caller, report.tenant, report.chat_id, report.sequence)
        else:
            with suppress(MemberNotFound):  # who left meanwhile needs not be removed
                name = user_id(report.reported)
                await self.remove(caller, report.tenant, report.chat_id, name)


def _check_other(reporter: UserKey, reported: UserKey) -> None:
    if reporter == reported:
        raise Invalid("you cannot report yourself")


def _comment_of(report_id: str) -> str:
    return f"comment of report\0{report_id}"


def _note_of(report_id: str) -> str:
    return f"note of report\0{report_id}"
