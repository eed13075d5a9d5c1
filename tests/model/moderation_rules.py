# SPDX-License-Identifier: Apache-2.0
"""Rules for what keeps users safe: bans, reports to the tenant, and what the tenant does then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.ground import USERS, Ground, picks, users
from tests.model.lines import Line
from tests.model.reference import Room
from tests.model.tenancy import DAY_MS
from tidings.actions.chat.reporting import OpenedReport
from tidings.actions.identity.bans import FOR_EVER
from tidings.actions.identity.caller import TenantCaller
from tidings.model.ids import ChatId, UserKey, tenant_itself, tenant_of
from tidings.model.refusals import (
    ChatNotFound,
    DirectChatFixed,
    Invalid,
    RateLimited,
    UserNotFound,
)
from tidings.model.reports import (
    REPORT_MS,
    USER_DAY_REPORTS_MAX,
    ReportAction,
    ReportReason,
    ReportState,
)

TENANT: Final = tenant_of(USERS[0])
BACKEND: Final = TenantCaller(TENANT, "key")
REASONS: Final[Sequence[ReportReason]] = ("spam", "abuse")
STATES: Final[Sequence[ReportState | None]] = (None, "open", "resolved", "dismissed")
ACTIONS: Final[Sequence[ReportAction | None]] = (None, "redact", "remove", "ban")


@dataclass
class Filed:
    """A report as it should be."""

    reporter: str
    reported: str
    place: tuple[ChatId, int] | None
    """The message; None if it is about the user."""
    reason: str
    content: str | None
    comment: str | None
    made_at: int
    state: str = "open"
    note: str | None = None
    action: str | None = None
    files: tuple[str, ...] = ()


def redact_as_tenant(room: Room, sequence: int, now: int) -> None:
    """The tenant removes the content of a message."""
    if room.log[-1].kind == "deleted":
        raise ChatNotFound
    message = room.message(sequence)
    if message.gone(now) is None:
        message.content, message.is_redacted, message.reactions = None, True, []
        message.mentions = []
        room.log.append(Line("redacted", tenant_itself(TENANT), now, target=sequence))


def remove_as_tenant(room: Room, user: str, now: int) -> None:
    """The tenant removes a member, unless they have left."""
    if room.log[-1].kind == "deleted":
        raise ChatNotFound
    if room.kind == "direct":
        raise DirectChatFixed
    if user in room.members:
        room.take_out(tenant_itself(TENANT), user, now)


class ModerationRules(Ground):
    """What users report, and whom the tenant bans."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.filed: dict[str, Filed] = {}
        self.spent: dict[tuple[str, int], int] = {}
        """How many reports each user made on each day."""

    @rule(user=users, ms=st.sampled_from([None, None, 1, 1_000, 60_000, DAY_MS]))
    def ban(self, user: UserKey, ms: int | None) -> None:
        """Ban somebody for a while, or end it."""
        until = None if ms is None else self.now + ms
        self.product.run(self.product.verbs.change_report.ban(user, until))
        self._note_ban(user, until or 0)

    def _note_ban(self, user: UserKey, until: int) -> None:
        self.tenancy.bans[user] = until
        self.product.spread_ban(user, until)

    @rule(
        chat=Ground.chats,
        pick=picks,
        whats=st.lists(st.tuples(picks, picks), min_size=1, max_size=3),
        reason=st.sampled_from(REASONS),
        comment=st.sampled_from([None, "bad"]),
    )
    def report(
        self,
        chat: ChatId,
        pick: int,
        whats: list[tuple[int, int]],
        reason: ReportReason,
        comment: str | None,
    ) -> None:
        """Messages that others wrote, as a rule, or their authors."""
        for actor, target in whats:
            user, sequence = self.who(chat, actor), self.target(chat, target)
            if pick % 4 == 0:
                self._report_user(user, USERS[target % len(USERS)], reason, comment)
            else:
                self._report(chat, user, sequence, reason, comment)

    def _report(
        self, chat: ChatId, user: UserKey, sequence: int, reason: ReportReason, comment: str | None
    ) -> None:
        room = self.rooms[chat]

        def expect() -> Filed:
            room.member(user)
            line = room.message(sequence)
            filed = Filed(user, line.sender, (chat, sequence), reason, None, comment, self.now)
            if not line.gone(self.now):
                filed.content, filed.files = line.content, line.files
            return self._file(filed)

        act = self.product.verbs.report.of_message(user, chat, sequence, reason, comment)
        self._keep(self.same(expect, act))

    def _report_user(
        self, user: UserKey, other: UserKey, reason: ReportReason, comment: str | None
    ) -> None:
        self._keep(
            self.same(
                lambda: self._file(Filed(user, other, None, reason, None, comment, self.now)),
                self.product.verbs.report.of_user(user, other, reason, comment),
            )
        )

    def _file(self, filed: Filed) -> Filed:
        if filed.reporter == filed.reported:
            raise Invalid("of oneself")
        day = filed.reporter, self.now // DAY_MS
        if self.spent.get(day, 0) >= USER_DAY_REPORTS_MAX:
            raise RateLimited
        self.spent[day] = self.spent.get(day, 0) + 1
        return filed

    def _keep(self, both: tuple[Filed, str] | None) -> None:
        if both is None:
            return
        filed, name = both
        same = [
            known
            for known, one in self._kept().items()
            if (one.reporter, one.reported, one.place)
            == (filed.reporter, filed.reported, filed.place)
        ]
        assert same in ([], [name])
        self.happened["reported again" if same else "reported"] += 1
        if not same:
            assert name not in self.filed
            self.filed[name] = filed
        for file in filed.files:
            upload = self.tenancy.shelf.uploads[file]
            upload.kept_until = max(upload.kept_until, self.filed[name].made_at + REPORT_MS)

    def _kept(self) -> dict[str, Filed]:
        since = self.now - REPORT_MS
        return {name: filed for name, filed in self.filed.items() if filed.made_at > since}

    @precondition(lambda self: self.filed)
    @rule(state=st.sampled_from(STATES), limit=st.sampled_from([1, 2, 100]))
    def list_reports(self, state: ReportState | None, limit: int) -> None:
        """The tenant sees what was reported, as it was then, whatever became of it."""
        self.product.switch()
        found = self.product.run(self._listed_reports(state, limit))
        kept = [
            (name, filed) for name, filed in self._kept().items() if state in (None, filed.state)
        ]
        assert [one.report.report_id for one in found] == sorted(dict(kept), reverse=True)
        for one in found:
            self._compare(one)

    async def _listed_reports(self, state: ReportState | None, limit: int) -> list[OpenedReport]:
        found: list[OpenedReport] = []
        cursor = None
        while True:
            page, cursor = await self.product.verbs.reports(BACKEND, TENANT, state, cursor, limit)
            found += page
            if cursor is None:
                return found

    def _compare(self, one: OpenedReport) -> None:
        filed, report = self.filed[one.report.report_id], one.report
        place = None if report.chat_id is None else (report.chat_id, report.sequence)
        assert (report.reporter, report.reported, place, report.reason, report.state) == (
            filed.reporter, filed.reported, filed.place, filed.reason, filed.state
        )  # fmt: skip
        content = None if one.message is None else one.message.content
        assert (content, one.comment, one.note, report.action) == (
            filed.content, filed.comment, filed.note, filed.action
        )  # fmt: skip
        for file in filed.files:
            read = self.product.run(self._reported_file(report.report_id, file))
            assert read == self.tenancy.shelf.uploads[file].data
            self.happened["reported file read"] += 1
        is_gone = filed.place and self.rooms[filed.place[0]].log[filed.place[1] - 1].is_redacted
        self.happened["redacted, yet reported"] += bool(is_gone and content)

    async def _reported_file(self, report_id: str, file: str) -> bytes:
        read = self.product.deployment.core.files.read_reported
        download = await read(BACKEND, TENANT, report_id, file)
        return b"".join([piece async for piece in download.data])

    @precondition(lambda self: self.filed)
    @rule(
        pick=picks,
        state=st.sampled_from(STATES),
        note=st.sampled_from([None, "seen"]),
        action=st.sampled_from(ACTIONS),
    )
    def change_report(
        self, pick: int, state: ReportState | None, note: str | None, action: ReportAction | None
    ) -> None:
        kept = sorted(self._kept())
        if not kept:
            return
        name = kept[pick % len(kept)]
        self.product.switch()
        filed = self.filed[name]
        verb = self.product.verbs.change_report
        both = self.same(
            lambda: self._change(filed, state, note, action),
            verb(BACKEND, TENANT, name, state=state, note=note, action=action),
        )
        if both is None:
            return
        if action == "ban":
            self._note_ban(UserKey(filed.reported), FOR_EVER)
        self._compare(both[1])
        self.happened[f"report: {action}"] += 1

    def _change(
        self, filed: Filed, state: str | None, note: str | None, action: str | None
    ) -> None:
        if action in ("redact", "remove"):
            if filed.place is None:
                raise Invalid("only of a message")
            chat, sequence = filed.place
            room = self.room(chat)
            if action == "redact":
                redact_as_tenant(room, sequence, self.now)
            else:
                remove_as_tenant(room, filed.reported, self.now)
        if action == "ban" and filed.reported not in USERS:
            raise UserNotFound  # the tenant itself
        filed.state = state or filed.state
        filed.note = note or filed.note
        filed.action = action or filed.action
