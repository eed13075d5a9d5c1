# SPDX-License-Identifier: Apache-2.0
"""What became of a message: the rules and the timeline, in a gateway without sockets."""

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tests.support.waiting import until
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.explain import messages, notifications
from tidings.actions.explain.explaining import Explain
from tidings.actions.identity.caller import Root
from tidings.assembly.rest import make_explain, make_identity_verbs
from tidings.gateway.journal import ANSWERED_STEPS_MAX, DeliveryJournal
from tidings.gateway.journals import LocalJournal
from tidings.model import limits
from tidings.model.entries import Entry, SendOptions
from tidings.model.explaining import Explanation
from tidings.model.ids import ChatId, UserKey, message_id, user_id, user_key
from tidings.model.notifications import Copy, InboxConfig, Posting
from tidings.model.refusals import Invalid, Refusal, TenantNotFound, UserNotFound
from tidings.ports.bus import DeadLetter
from tidings.ports.journals import NoJournals
from tidings.wire.entry_frames import encode_entry

NOWHERE = ChatId("0" * 26)

_numbers = itertools.count(1)


class Desk(msgspec.Struct):
    """A gateway, and somebody who asks."""

    bench: GatewayBench
    verb: Explain

    async def about(self, user: UserKey, chat: ChatId, sequence: int) -> Explanation:
        return await self.ask(user, message_id=message_id(chat, sequence))

    async def ask(self, user: UserKey, **about: Any) -> Explanation:
        return await self.verb(Root(), "acme", user_id(user), **about)

    async def code(self, user: UserKey, chat: ChatId, sequence: int) -> str:
        return (await self.about(user, chat, sequence)).verdict.code

    def line(self, window: int = limits.WINDOW_ENTRIES) -> FakeConnection:
        """A new connection, with an id of its own."""
        name = f"c{next(_numbers)}"
        context = replace(self.bench.context, new_connection_id=lambda: name)
        return self.bench.line(window=window, context=context)

    def with_message(self, **parts: Any) -> "Desk":
        """The same, with other parts of the verb for messages."""
        message = replace(self.verb.message, **parts)
        return Desk(self.bench, replace(self.verb, message=message))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with a_gateway(tmp_path / "data") as bench:
        await make_identity_verbs(bench.core).put_tenant(Root(), "acme", None)
        for user in (ANN, BOB, CAT, DAN):
            await bench.core.store.users.put(user, display_name=None, phone_number=None, now=1)
        journals = LocalJournal(bench.hub, bench.context.journal)
        yield Desk(bench, make_explain(bench.core, journals))


def steps(explained: Explanation) -> list[str]:
    return [moment.what for moment in explained.timeline]


async def test_a_message_that_waits_is_followed_to_the_end(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    assert await desk.code(BOB, chat, 1) == "never_accepted", "it is no message"
    line = await desk.line(window=2).live(BOB, have={chat: 1})
    await bench.post(ANN, chat, 4)
    assert await desk.code(ANN, chat, 2) == "own_message"
    assert await desk.code(BOB, chat, 3) == "written"
    held = await desk.about(BOB, chat, 5)
    assert (held.verdict.code, held.verdict.since) == ("window_full", bench.clock.time)
    bench.clock.time += 5
    line.say("received", chat=chat, sequence=3)
    await line.until_entries(chat, 4)
    assert (await desk.about(BOB, chat, 5)).verdict.since == bench.clock.time, "read from the log"
    line.say("received", chat=chat, sequence=5)
    confirmed = await desk.about(BOB, chat, 5)
    assert confirmed.verdict.code == "acknowledged"
    assert steps(confirmed)[-1] == "acknowledged"
    await bench.core.receipts.settle(BOB, chat)
    stored = await desk.about(BOB, chat, 5)
    assert (stored.verdict.code, stored.verdict.since is None) == ("acknowledged", False)
    line.pause()
    await bench.post(ANN, chat)
    assert await desk.code(BOB, chat, 6) == "socket_full"
    line.progress.is_paused = False
    assert await desk.code(BOB, chat, 6) == "behind"
    line.resume()
    await line.until_entries(chat, 5)
    line.say("read", chat=chat, sequence=6)
    await bench.core.receipts.settle(BOB, chat)
    read = await desk.about(BOB, chat, 6)
    assert (read.verdict.code, steps(read)[-2:]) == ("read", ["acknowledged", "read"])
    await line.hang_up()
    assert "disconnected" in steps(await desk.about(BOB, chat, 6))


async def test_in_a_large_chat_only_the_connection_knows(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB, *some_users(limits.SMALL_CHAT_MEMBERS_MAX))
    line = await desk.line().live(BOB)
    known = len(line.sequences(chat))
    await bench.post(ANN, chat)
    await line.until_entries(chat, known + 1)
    line.say("received", chat=chat, sequence=known + 1)
    confirmed = await desk.about(BOB, chat, known + 1)
    assert confirmed.verdict.code == "acknowledged"
    assert (steps(confirmed)[-1], confirmed.timeline[-1].at) == ("acknowledged", None)


async def test_an_entry_that_comes_too_early_is_written_when_it_comes_again(desk: Desk) -> None:
    bench, journal = desk.bench, desk.bench.context.journal
    chat = await bench.group(ANN, BOB)
    context = replace(bench.context, gap_seconds=60.0)
    line = await bench.line(context=context).live(BOB, have={chat: 1})
    await bench.another_process().post(ANN, chat, 2)
    page = await bench.core.verbs.read.entries(ANN, chat, after=1, limit=2)
    for entry in (page.entries[1], *page.entries):
        bench.clock.time += 1
        line.deliver(entry, encode_entry(entry), is_small=True)
        journal.handed(chat, entry.sequence)
    found = await desk.about(BOB, chat, 3)
    assert (found.verdict.code, found.verdict.since) == ("written", bench.clock.time)
    assert "waiting_for_earlier" in steps(found)
    await line.hang_up()
    lost = await desk.about(BOB, chat, 3)
    (written,) = (moment for moment in lost.timeline if moment.what == "written_to_socket")
    assert written.at is None, "the connection that knew it is gone"


async def test_whoever_is_offline_may_have_been_sent_it(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    assert await desk.code(BOB, chat, 2) == "never_connected"
    nobody_answers = desk.with_message(journals=NoJournals())
    assert await nobody_answers.code(BOB, chat, 2) == "unknown"
    line = await desk.line().live(BOB)
    await line.until_entries(chat, 2)
    await line.hang_up()
    await bench.core.verbs.mute(BOB, chat, bench.clock.time + 1_000)
    lost = await desk.about(BOB, chat, 2)
    assert lost.verdict.code == "offline"
    assert lost.verdict.sentence.endswith("has muted the chat. The tenant uses no push service.")
    assert steps(lost) == ["accepted", "written_to_socket", "disconnected", "push_off", "muted"]
    bench.clock.time += 1_000
    assert "muted" not in steps(await desk.about(BOB, chat, 2))
    silent = SendOptions(mentions=("bob",), silent=True)
    await bench.post(ANN, chat, options=silent)
    await bench.core.verbs.mute(BOB, chat, bench.clock.time + 1_000, except_mentions=True)
    assert "muted" in steps(await desk.about(BOB, chat, 2))
    mentioned = await desk.about(BOB, chat, 3)
    assert "muted" not in steps(mentioned)
    assert "is silent" in mentioned.verdict.sentence
    await bench.core.verbs.mark(BOB, chat, 0, 2)
    await bench.post(ANN, chat)
    forgotten = desk.with_message(journals=LocalJournal(bench.hub, DeliveryJournal(bench.clock)))
    used = await forgotten.about(BOB, chat, 4)
    assert (used.verdict.code, used.verdict.since) == ("offline", None), "it is not kept since when"
    await bench.core.store.users.set_active(BOB, False, bench.clock.time)
    assert await desk.code(BOB, chat, 4) == "deactivated"


async def test_only_the_last_of_many_connections_are_told(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    line = await desk.line().live(BOB)
    await line.hang_up()
    for _ in range(2 * ANSWERED_STEPS_MAX):
        bench.clock.time += 1
        bench.context.journal.closed(line)
    told = await desk.about(BOB, chat, 2)
    assert steps(told).count("disconnected") == ANSWERED_STEPS_MAX
    assert told.verdict.since == bench.clock.time


async def test_a_user_who_blocks_the_sender(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    bench.clock.time += 5
    await bench.core.verbs.block(BOB, ANN)
    found = await desk.about(BOB, chat, 2)
    assert (found.verdict.code, found.verdict.since) == ("blocked", bench.clock.time)
    assert "blocked" in steps(found)
    assert await desk.code(ANN, chat, 2) == "own_message"


async def test_a_device_that_loads_the_chat_itself(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 3)
    line = await desk.line().live(BOB, have={chat: 99})
    assert await desk.code(BOB, chat, 3) == "resync_not_fetched"
    line.say("fetch", id="1", chat=chat, after=9, limit=1)
    await line.until(lambda: line.of("page"))
    assert await desk.code(BOB, chat, 3) == "unknown"
    line.say("fetch", id="2", chat=chat, before=5, limit=2)
    await line.until(lambda: len(line.of("page")) > 1)
    assert await desk.code(BOB, chat, 3) == "fetched"
    await line.hang_up()
    line = await desk.line().live(BOB, catch_up="heads")
    assert await desk.code(BOB, chat, 3) == "not_followed"
    line.say("follow", id="1", chat=chat, after=99)
    await line.until(lambda: line.of("resync"))
    assert await desk.code(BOB, chat, 3) == "resync_not_fetched"
    await line.hang_up()
    await desk.line().live(BOB, have={chat: 4})
    assert await desk.code(BOB, chat, 3) == "before_connection"


async def test_whoever_is_not_a_member(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, verbs = desk.bench, desk.bench.core.verbs
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    await verbs.put_member(ANN, chat, CAT, None)
    assert await desk.code(CAT, chat, 2) == "not_member"
    assert await desk.code(DAN, chat, 2) == "not_member"
    await verbs.remove_member(ANN, chat, BOB)
    assert await desk.code(BOB, chat, 2) == "removed"
    await bench.post(ANN, chat, 300)
    monkeypatch.setattr(messages, "PAGES_MAX", 1)
    await verbs.put_member(ANN, chat, DAN, None)
    later = await desk.about(DAN, chat, 2)
    assert later.verdict.code == "unknown", "the log was not read as far as that"
    assert steps(later) == ["accepted", "joined"]
    assert await desk.code(ANN, NOWHERE, 2) == "never_accepted"
    await verbs.delete.as_owner(ANN, chat)
    gone = await desk.about(CAT, chat, 2)
    assert (gone.verdict.code, gone.verdict.since) == ("chat_deleted", None)
    assert (await desk.about(CAT, chat, 280)).verdict.since is not None


async def test_content_that_is_gone(desk: Desk) -> None:
    bench, verbs = desk.bench, desk.bench.core.verbs
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat, 2)
    await verbs.edit(ANN, chat, 2, "other")
    await verbs.react(BOB, chat, 2, "+1")
    await verbs.redact(ANN, chat, 2)
    gone = await desk.about(BOB, chat, 2)
    assert (gone.verdict.code, steps(gone)) == ("redacted", ["accepted", "edited", "redacted"])
    done: list[Entry | Refusal] = []
    verbs.post(ANN, chat, "short", "x", None, 1, lambda entry, _: done.append(entry))
    await until(lambda: done)
    bench.clock.time += 2_000
    assert (await desk.about(BOB, chat, 7)).timeline[-1].what == "expired"
    await bench.core.vault.erase(ANN)
    gone = await desk.about(BOB, chat, 3)
    assert (gone.verdict.code, gone.timeline[-1].what) == ("erased", "erased")


class Late:
    """A store of deliveries that has not reached the last entries."""

    async def reached(self, chats: Sequence[ChatId]) -> dict[ChatId, int]:
        return dict.fromkeys(chats, 2)


async def test_what_no_worker_has_delivered(desk: Desk) -> None:
    bench = desk.bench
    chat = await bench.group(ANN, BOB)
    line = await desk.line().live(BOB)
    other = bench.another_process()
    await other.post(ANN, chat, 2)
    assert line.progress.get(chat) is not None
    late = desk.with_message(deliveries=Late())
    assert await late.code(BOB, chat, 2) == "behind"
    assert await late.code(BOB, chat, 3) == "not_dispatched"


async def test_a_question_has_to_be_right(desk: Desk) -> None:
    for wrong in (
        {},
        {"message_id": "x"},
        {"notification_id": "x"},
        {"message_id": f"{NOWHERE}.1", "notification_id": "b1"},
    ):
        with pytest.raises(Invalid):
            await desk.ask(BOB, **wrong)
    for user in ("nobody", "a/b"):
        with pytest.raises(UserNotFound):
            await desk.verb(Root(), "acme", user, request_id="r")
    with pytest.raises(TenantNotFound):
        await desk.verb(Root(), "nowhere", "bob", request_id="r")


async def test_a_request_that_made_no_message(desk: Desk) -> None:
    bench, refusals = desk.bench, desk.verb.refusals
    chat = await bench.group(ANN, BOB)
    await bench.post(ANN, chat)
    refusals.refused("r1", "content.empty", "socket", "acme", ANN)
    refusals.repeated("r2", message_id(chat, 2), "socket", ANN)
    refusals.refused("r3", "content.empty", "socket", "elsewhere", None)
    refused = await desk.ask(BOB, request_id="r1")
    assert (refused.verdict.code, steps(refused)) == ("never_accepted", ["refused"])
    assert (await desk.ask(BOB, request_id="r3")).verdict.code == "unknown"
    repeat = await desk.ask(BOB, request_id="r2")
    assert (repeat.verdict.code, steps(repeat)) == ("repeat", ["accepted", "push_off", "repeated"])
    both = {"message_id": f"{chat}.9", "request_id": "r1"}
    assert steps(await desk.ask(BOB, **both)) == ["refused"]
    both = {"message_id": f"{chat}.2", "request_id": "r1"}
    assert (await desk.ask(BOB, **both)).verdict.code == "never_connected"


async def is_escalated(desk: Desk, notice: str) -> None:
    """An e-mail is claimed, given back, claimed again and sent."""
    claims = desk.bench.core.store.escalations
    assert await claims.claim(BOB, "news", notice, 7)
    claimed = await desk.ask(BOB, notification_id=notice)
    assert (claimed.verdict.code, claimed.verdict.since) == ("escalated", 7)
    assert "email_claimed" in steps(claimed)
    await claims.release(BOB, "news", notice, 7)
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "unread"
    assert await claims.claim(BOB, "news", notice, 8)
    await claims.finish(BOB, "news", notice, 8)
    sent = await desk.ask(BOB, notification_id=notice)
    assert (sent.verdict.code, "escalated" in steps(sent)) == ("escalated", True)


async def test_a_notification(desk: Desk) -> None:
    bench, inbox = desk.bench, desk.bench.core.inbox
    await inbox.configs.put("acme", "news", InboxConfig(title="News", late_joiners=False))
    message: dict[str, object] = {"title": "Hello", "body": ""}
    posting = Posting(users=["ann", "bob"], message=message)
    notice = (await inbox.post("acme", "news", posting, None)).notification_id
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "queued"
    store = bench.core.store
    (job,) = await store.jobs.take(1)
    letter = DeadLetter(aside_id=f"{notice}-0", job=job.job, reason="x", at=1)
    await store.dead_letters.keep(letter)
    dead = await desk.ask(BOB, notification_id=notice, inbox="news")
    assert "failed too often" in dead.verdict.sentence
    copy = Copy(notification_id=notice, category=None, received_at=5, expires_at=2**40)
    await store.copies.deliver([BOB], "news", copy)
    await store.notifications.finish_job("acme", "news", notice, 0)
    assert (await desk.ask(CAT, notification_id=notice)).verdict.code == "not_addressed"
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "never_connected"
    line = await desk.line().live(BOB)
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "unread"
    await line.hang_up()
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "unread", "it was there"
    await is_escalated(desk, notice)
    bench.clock.time += 1
    later = bench.clock.time + 10
    late = Copy(notification_id=notice, category=None, received_at=later, expires_at=2**41)
    await store.copies.deliver([CAT], "news", late)
    await (await desk.line().live(CAT)).hang_up()
    assert (await desk.ask(CAT, notification_id=notice)).verdict.code == "offline"
    await inbox.read.some(BOB, "news", [notice])
    read = await desk.ask(BOB, notification_id=notice)
    assert (read.verdict.code, "read" in steps(read)) == ("read", True)
    await bench.core.store.users.set_active(BOB, False, bench.clock.time)
    assert "deactivated" in steps(await desk.ask(BOB, notification_id=notice))
    await inbox.redact("acme", "news", notice)
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "retracted"


async def test_a_broadcast(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, inbox = desk.bench, desk.bench.core.inbox
    for name in ("news", "more"):
        await inbox.configs.put("acme", name, InboxConfig(title="News", late_joiners=False))
    posting = Posting(users=None, message={"title": "Hello", "body": ""})
    notice = (await inbox.post("acme", "news", posting, None)).notification_id
    assert (await desk.ask(BOB, notification_id=notice)).verdict.code == "never_connected"
    bench.clock.time += 1
    eve = user_key("acme", "eve")
    now = bench.clock.time
    await bench.core.store.users.put(eve, display_name=None, phone_number=None, now=now)
    assert (await desk.ask(eve, notification_id=notice)).verdict.code == "not_addressed"
    assert (await desk.ask(eve, notification_id="b9")).verdict.code == "never_accepted"
    await inbox.post("acme", "more", posting, None)
    with pytest.raises(Invalid):
        await desk.ask(BOB, notification_id=notice)
    with monkeypatch.context() as fewer:
        fewer.setattr(notifications, "INBOXES_MAX", 1)
        with pytest.raises(Invalid, match="must be given"):
            await desk.ask(BOB, notification_id="b9")
    bench.clock.time += 400 * limits.DAY_MS
    old = await desk.ask(BOB, notification_id=notice, inbox="more")
    assert (old.verdict.code, steps(old)) == ("expired", ["posted", "expired"])
