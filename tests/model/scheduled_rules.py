# SPDX-License-Identifier: Apache-2.0
"""Rules for scheduled messages: schedule, change and cancel them, and what happens when due."""

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.drafts import Draft, Drafts, Request, check_mentions
from tests.model.file_rules import FileRules, file_names
from tests.model.ground import Ground, picks, several, users
from tests.model.lines import Options
from tests.model.message_rules import ONE, TWO
from tidings.actions.chat.scheduling import Change, ScheduledDraft
from tidings.model.entries import SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid
from tidings.ports.due import Due
from tidings.ports.tenant_jobs import NotYet

HOLDER: Final = "model"
UNKNOWN: Final = "00" * 16
"""An id that no scheduled message has."""


class Schedule(NamedTuple):
    """A message for later; with an id that was used before, perhaps a repeat."""

    actor: int
    cmid: str | None
    text: str
    in_ms: int
    ttl_seconds: int | None = None
    answers: int | None = None
    mentions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The names of files that are uploaded for it."""
    earlier_file: int | None = None


times = st.sampled_from([1, 1_000, 1_000, 60_000, 3 * 24 * 3_600_000])
contents = st.sampled_from([ONE, TWO])
schedules = st.one_of(
    st.builds(
        Schedule, picks, st.none() | st.sampled_from("ab"), contents, times, st.none(), st.none(),
        st.just(()), st.just(()), st.none(),
    ),
    st.builds(
        Schedule, picks, st.none(), contents, times, st.sampled_from([None, 2]),
        st.none() | picks, st.sampled_from([(), ("*",), ("bob",)]),
        st.lists(file_names, max_size=1).map(tuple), st.none() | picks,
    ),
)  # fmt: skip


def has_drafts(machine: "ScheduledRules") -> bool:
    """Whether anything was scheduled."""
    return bool(machine.drafts.all)


class ScheduledRules(FileRules):
    """What users want to be sent later."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.drafts = Drafts(self.tenancy)

    @rule(chat=Ground.chats, doings=several(schedules))
    def schedule(self, chat: ChatId, doings: list[Schedule]) -> None:
        self.room(chat)
        for doing in doings:
            user = self.who(chat, doing.actor)
            files = [self.upload(user, name, "all") for name in doing.files]
            if doing.earlier_file is not None:
                files.append(self.file_of(user, doing.earlier_file))
            target = None if doing.answers is None else self.target(chat, doing.answers)
            options = Options(target, doing.mentions, files=tuple(dict.fromkeys(files)))
            self._schedule(chat, user, doing, options)

    @precondition(has_drafts)
    @rule(pick=picks, is_changed=st.sampled_from([False, False, True]))
    def schedule_again(self, pick: int, is_changed: bool) -> None:
        """A repeat gets what the first request got, whatever has become of it since."""
        known = [one for one in self.drafts.all.items() if one[1].is_kept(self.now)]
        if known:
            (user, chat, cmid), draft = known[-1 - pick % len(known)]
            asked = draft.asked._replace(text="other") if is_changed else draft.asked
            self._add(ChatId(chat), UserKey(user), cmid, asked)

    def _schedule(self, chat: ChatId, user: UserKey, doing: Schedule, options: Options) -> None:
        cmid = doing.cmid or f"fresh-{next(self.fresh)}"
        known = self.drafts.all.get((user, chat, cmid))
        if known is None or known.is_kept(self.now):
            asked = Request(doing.text, self.now + doing.in_ms, doing.ttl_seconds, options)
            self._add(chat, user, cmid, asked)

    def _add(self, chat: ChatId, user: UserKey, cmid: str, asked: Request) -> None:
        text, send_at, ttl_seconds, (target, mentions, _, files) = asked
        draft = Draft(user, chat, asked, asked)
        options = SendOptions(target, mentions, attachments=files)
        wanted = ScheduledDraft(cmid, text, None, ttl_seconds, options)
        both = self.same(
            lambda: self.drafts.add(self.rooms[chat], (user, chat, cmid), draft, self.now),
            self.product.verbs.scheduling.add(user, chat, wanted, send_at),
        )
        if both is None:
            return
        kept, found = both
        if kept is draft:
            kept.name = found.scheduled_id
            self.tenancy.shelf.reserve(files, kept.sent_as)
            self.happened["scheduled"] += 1
        else:
            self.happened["scheduled again"] += 1
        assert (found.scheduled_id, found.state) == (kept.name, kept.state)
        assert found.sequence == kept.sequence

    @precondition(has_drafts)
    @rule(
        pick=picks,
        stranger=st.sampled_from([None, None, None]) | users,
        in_ms=st.none() | st.sampled_from([-1, 0, 1, 500, 60_000]),
        text=st.none() | contents,
        mentions=st.sampled_from([None, None, (), ("cat",)]),
    )
    def change_scheduled(
        self,
        pick: int,
        stranger: UserKey | None,
        in_ms: int | None,
        text: str | None,
        mentions: tuple[str, ...] | None,
    ) -> None:
        user, name = self._scheduled(pick)
        user = stranger or user
        send_at = None if in_ms is None else self.now + in_ms

        def expect() -> Draft:
            if in_ms is not None and in_ms <= 0:
                raise Invalid("in the past")
            draft = self.drafts.pending(user, name)
            before = draft.wanted
            options = before.options
            if mentions:
                check_mentions(self.rooms[self.drafts.chat_of(draft)], user, mentions)
            if mentions is not None:
                options = options._replace(mentions=mentions)
            draft.wanted = before._replace(
                text=before.text if text is None else text,
                send_at=before.send_at if send_at is None else send_at,
                options=options,
            )
            return draft

        wanted = Change(send_at=send_at, content=text, mentions=mentions)
        both = self.same(expect, self.product.verbs.scheduling.change(user, name, wanted))
        if both is not None:
            draft, (found, content) = both
            assert (content, found.send_at) == draft.wanted[:2]
            self.happened["changed"] += 1

    @precondition(has_drafts)
    @rule(pick=picks, stranger=st.sampled_from([None, None, None]) | users)
    def cancel_scheduled(self, pick: int, stranger: UserKey | None) -> None:
        user, name = self._scheduled(pick)
        user = stranger or user
        both = self.same(
            lambda: self.drafts.cancel(user, name, self.now),
            self.product.verbs.scheduling.cancel(user, name),
        )
        self.happened["cancelled"] += both is not None
        self.compare_uploads()

    def _scheduled(self, pick: int) -> tuple[UserKey, str]:
        """A scheduled message, which is not forgotten yet; now and then none."""
        known = [draft for draft in self.drafts.all.values() if draft.is_kept(self.now)]
        if pick % 8 == 0 or not known:
            return UserKey("acme:ann"), UNKNOWN
        if pick % 2:  # as a rule one with files, if there is any
            known = [draft for draft in known if draft.files] or known
        draft = known[-1 - pick // 8 % len(known)]
        return UserKey(draft.user), draft.name

    @precondition(has_drafts)
    @rule(user=users, limit=st.sampled_from([1, 3, 100]))
    def list_scheduled(self, user: UserKey, limit: int) -> None:
        self.product.switch()
        found = sorted(self.product.run(self._listed(user, limit)))
        expected = [
            (draft.send_at, draft.name, draft.state, draft.wanted.text, draft.code)
            for draft in self.drafts.listed(user, self.now)
        ]
        assert found == expected

    async def _listed(self, user: UserKey, limit: int) -> list[tuple[Any, ...]]:
        found = []
        cursor = None
        while True:
            page, cursor = await self.product.verbs.scheduling.list(user, cursor, limit)
            found += page
            if cursor is None:
                return [(m.send_at, m.scheduled_id, m.state, text, m.code) for m, text in found]

    @precondition(has_drafts)
    @rule(to_the_next=st.booleans(), early=st.sampled_from([0, 0, 1]), dies=st.booleans())
    def send_what_is_due(self, to_the_next: bool, early: int, dies: bool) -> None:
        """At the very time of the next one, or a moment earlier; perhaps by a process that dies
        after its work, so that another does it again."""
        coming = [d.send_at - early for d in self.drafts.all.values() if d.state == "pending"]
        later = [time for time in coming if time > self.now]
        if to_the_next and later:
            self.move_clock(min(later))
        self.product.switch()
        self.product.run(self._work(is_dropped=not dies))
        self.compare_uploads()
        for draft in self.drafts.all.values():
            assert draft.state != "pending" or draft.send_at > self.now

    async def _work(self, *, is_dropped: bool) -> None:
        core = self.product.deployment.core
        due = core.store.due
        found: list[Due] = []
        for shard in await due.lease("message", HOLDER, self.now):
            found += await due.read("message", shard, self.now, 100)
        for one in sorted(found, key=lambda item: (item.at, item.item_id)):
            assert one.at <= self.now
            draft = next(d for d in self.drafts.all.values() if d.name == one.item_id)
            if draft.state == "pending" and draft.send_at == one.at:
                self._fire(draft)
            try:
                await core.due_work["message"].do(one)
            except NotYet:
                continue
            stored = await core.store.scheduled.get(UserKey(draft.user), draft.name)
            if stored is not None:
                found_state = (stored.state, stored.sequence, stored.code)
                assert found_state == (draft.state, draft.sequence, draft.code)
            if is_dropped:
                await due.drop(one)

    def _fire(self, draft: Draft) -> None:
        room = self.room(ChatId(draft.chat))
        self.drafts.fire(draft, room, self.now, self.kept_ms)
        self.happened["sent when due" if draft.state == "sent" else "failed when due"] += 1
        self.happened["sent late with files"] += draft.state == "sent" and bool(draft.files)
