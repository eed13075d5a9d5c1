# SPDX-License-Identifier: Apache-2.0
"""Messages on their way: answered, lost, refused, too old, and in the log by themselves."""

from datetime import timedelta

import pytest

from clients.python.tests.entries import NOON, message
from clients.python.tests.talking import Talk
from tidings_client import outbox
from tidings_client.errors import OutboxFull, Refused, SendExpired
from tidings_client.events import Message, SendFailed
from tidings_client.frames import RefusedFrame, Send, SentFrame
from tidings_client.outbox import AGE_MS_MAX
from tidings_client.saved import Outgoing
from tidings_client.sending import Sent, own_entry

SENT = Sent("c", 1, "c.1", "a", NOON)


def sent_frame(request: str, sequence: int = 1) -> SentFrame:
    return SentFrame(request, "c", sequence, f"c.{sequence}", NOON)


async def test_a_message_goes_out_once_it_is_kept_and_comes_back_as_an_event() -> None:
    talk = Talk()
    talk.connect(live=False)
    key = talk.post("a")
    talk.tick()
    assert talk.heard_last() == []
    talk.save()
    assert talk.heard_last() == [Send("1", "c", "a", "hi")]
    talk.hear(message(1), sent_frame("1", 2))
    assert talk.outcomes[key] == Sent("c", 2, "c.2", "a", NOON)
    _, own = await talk.take(2)
    assert isinstance(own, Message)
    assert (own.sequence, own.sender, own.content) == (2, "alice", "hi")


def test_the_outbox_does_not_wait_for_live() -> None:
    talk = Talk()
    talk.post("a")
    talk.save()
    talk.connect(live=False)
    assert talk.heard_last() == [Send("1", "c", "a", "hi")]


def test_it_outlives_connections_and_runs() -> None:
    talk = Talk()
    talk.connect()
    talk.post("a")
    talk.save()
    talk.conversation.lost()
    talk.connect()
    assert talk.heard_last() == [Send("2", "c", "a", "hi")]
    again = Talk(talk.storage)
    again.connect()
    assert again.heard_last() == [Send("1", "c", "a", "hi")]
    again.hear(sent_frame("1"))
    again.save()
    assert again.storage.load().outbox == []


def test_every_attempt_names_the_entry_that_was_the_last_when_it_was_posted() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(2))
    talk.post("a")
    talk.save()
    assert talk.heard_last()[-1] == Send("1", "c", "a", "hi", after=2)
    talk.hear(message(3))
    talk.conversation.lost()
    talk.connect()
    assert talk.heard_last()[-1] == Send("2", "c", "a", "hi", after=2)
    again = Talk(talk.storage)
    again.connect(epoch="another")
    assert again.heard_last()[-1] == Send("1", "c", "a", "hi", after=0)


def test_what_is_posted_without_a_connection_names_no_entry() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(2))
    talk.conversation.lost()
    talk.post("a")
    talk.save()
    talk.connect()
    assert talk.heard_last()[-1] == Send("1", "c", "a", "hi")


async def test_its_own_entry_is_an_answer_too() -> None:
    talk = Talk()
    talk.connect(live=False)
    key = talk.post("a")
    talk.save()
    talk.conversation.lost()
    talk.connect(live=False)
    own = own_entry(Outgoing("c", "a", "hi", 0), "alice", sent_frame("-"))
    talk.hear(own)
    assert talk.outcomes[key] == SENT
    talk.hear(sent_frame("2"))
    assert len(await talk.take(1)) == 1
    assert talk.queue.room == Talk().queue.room


def test_not_now_is_repeated_after_a_while() -> None:
    talk = Talk()
    talk.connect()
    talk.post("a")
    talk.post("b")
    talk.save()
    talk.hear(RefusedFrame("chat.busy", "", True, "1"))
    assert talk.heard_last() == [Send("1", "c", "a", "hi")]
    talk.tick()
    assert talk.heard_last() == [Send("2", "c", "a", "hi")]


def test_a_refused_message_waits_as_long_as_the_server_says() -> None:
    talk = Talk()
    talk.connect()
    talk.post("a")
    talk.save()
    talk.hear(RefusedFrame("chat.slow_mode", "", True, "1", 10_000))
    talk.heard_last()
    talk.post("b", chat="d")
    talk.save()
    assert [frame.chat for frame in talk.heard_last() if isinstance(frame, Send)] == ["d"]
    talk.tick(10)
    assert [frame for frame in talk.heard_last() if isinstance(frame, Send)] == []
    talk.tick()
    assert Send("3", "c", "a", "hi") in talk.heard_last()


def test_who_sends_too_fast_waits_in_every_chat() -> None:
    talk = Talk()
    talk.connect()
    talk.post("a")
    talk.save()
    talk.hear(RefusedFrame("rate.limited", "", True, "1", 2_000))
    talk.heard_last()
    talk.post("b", chat="d")
    talk.save()
    talk.tick(1)
    assert talk.heard_last() == []
    talk.tick(1)
    assert talk.heard_last() == [Send("2", "d", "b", "hi")]


def test_no_is_told_to_whoever_waits() -> None:
    talk = Talk()
    talk.connect()
    key = talk.post("a")
    talk.waited_for.add(key)
    talk.save()
    talk.hear(RefusedFrame("chat.not_found", "no such chat", False, "1"))
    assert isinstance(talk.outcomes[key], Refused)
    talk.save()
    assert talk.storage.load().outbox == []


async def test_no_is_an_event_if_nobody_waits_and_is_forgotten_once_taken() -> None:
    talk = Talk()
    talk.connect(live=False)
    talk.post("a")
    talk.save()
    talk.hear(RefusedFrame("chat.not_found", "no such chat", False, "1"))
    talk.save()
    assert [one.client_message_id for one in talk.storage.load().outbox] == ["a"]
    failed = SendFailed(
        chat="c", client_message_id="a", content="hi", code="chat.not_found", detail="no such chat"
    )
    assert await talk.take(1) == [failed]
    talk.save()
    assert talk.storage.load().outbox == []


async def test_failures_that_nobody_reads_fill_the_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MESSAGES_MAX", 2)
    talk = Talk()
    talk.connect(live=False)
    for number, name in enumerate(("a", "b"), 1):
        talk.post(name)
        talk.save()
        talk.hear(RefusedFrame("chat.not_found", "no such chat", False, str(number)))
    with pytest.raises(OutboxFull):
        talk.post("c")
    await talk.take(1)
    talk.post("c")


async def test_after_six_days_it_fails_visibly_instead_of_being_sent() -> None:
    talk = Talk()
    key = talk.post("a")
    talk.save()
    late = Talk(talk.storage)
    late.wall_ms = AGE_MS_MAX
    assert late.tick() is None
    assert isinstance(late.outcomes[key], SendExpired)
    (failed,) = await late.take(1)
    assert isinstance(failed, SendFailed)
    assert failed.code == "outbox.expired"
    late.connect()
    assert late.heard_last() == []


async def test_what_is_six_days_old_is_given_up_before_a_new_connection_sends_it() -> None:
    talk = Talk()
    key = talk.post("a")
    talk.save()
    late = Talk(talk.storage)
    late.wall_ms = AGE_MS_MAX + 1
    late.connect()
    assert late.heard_last() == []
    assert isinstance(late.outcomes[key], SendExpired)


async def test_an_answer_to_a_forgotten_message_still_has_a_place_in_the_log() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), sent_frame("never asked", 2))
    talk.tick()
    (fetch,) = [frame for frame in talk.heard_last() if frame.__class__.__name__ == "Fetch"]
    assert fetch.after == 1  # type: ignore[union-attr]


def test_an_own_entry_knows_when_it_expires() -> None:
    entry = own_entry(Outgoing("c", "a", "hi", 0, None, 60), "alice", sent_frame("1"))
    assert entry.expires_at == NOON + timedelta(seconds=60)
