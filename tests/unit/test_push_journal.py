# SPDX-License-Identifier: Apache-2.0
"""The journal of push: what it keeps apart, and what other processes answer."""

from collections.abc import Collection, Mapping

import msgspec

from tests.support.clock import NOW, ManualClock
from tests.support.fake_gateways import FakePushQueue
from tests.support.users import BOB, CAT
from tests.unit.small_deployment import ALICE, CHAT
from tidings.actions.explain.pushes import push_sentence
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.push.journal import KEPT_MAX, OPERATOR, USERS_MAX, PushJournal
from tidings.assembly.push_queue import NoDevices
from tidings.delivery.push_answers import ClusterPushes, answer_with
from tidings.delivery.push_notices import Everybody, PushNotifier, PushOffers
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.push_results import NOT_KEPT
from tidings.model.push_rules import YOUNG_MS_MAX
from tidings.model.roles import Member
from tidings.ports.delivery import MessageNotice
from tidings.ports.journals import JournalQuestion, PushRecord


def results(journal: PushJournal, user: UserKey = BOB, sequence: int = 7) -> list[str]:
    return [one.result for one in journal.look(JournalQuestion(user, CHAT, sequence))]


def test_decisions_do_not_displace_outcomes() -> None:
    journal = PushJournal(ManualClock())
    journal.lost((BOB,), CHAT, (7,), "dropped")
    for _ in range(KEPT_MAX + 1):
        journal.skipped((CAT,), CHAT, (7,), "taken")
    assert results(journal) == ["dropped"]
    assert set(results(journal, CAT)) == {"taken"}


def test_records_of_many_users_displace_others() -> None:
    journal = PushJournal(ManualClock())
    journal.lost((BOB,), CHAT, (7,), "dropped")
    journal.lost((BOB,), CHAT, (7,), "failed")
    others = [UserKey(f"acme:user{number}") for number in range(USERS_MAX - 2)]
    journal.lost([*others, BOB], "news/n1", (0,), "dropped")
    assert results(journal) == ["failed"], "room for one more"
    journal.lost((BOB, CAT), CHAT, (7,), "dropped")
    assert results(journal) == ["dropped"]
    assert journal.look(JournalQuestion(BOB, notification="news/n1")) == []


def test_the_operator_gets_one_notice_for_many_users() -> None:
    journal = PushJournal(ManualClock())
    notice = MessageNotice(chat_id=CHAT, sequence=9, sender=ALICE, users=(BOB, CAT))
    journal.claimed(BOB, CHAT, range(7, 10), 9)
    journal.by_operator([notice], "refused", "status 403")
    assert results(journal) == ["claimed", "refused"], "by the notice of a later message"
    assert results(journal, CAT, 9) == ["refused"]
    assert results(journal, CAT) == []
    told = push_sentence(journal.look(JournalQuestion(BOB, CHAT, 8)))
    assert told == f"The push service refused the notice to {OPERATOR}: status 403."


async def test_an_old_message_is_late_for_everybody() -> None:
    clock, queue = ManualClock(), FakePushQueue()
    journal = PushJournal(clock)
    offers = PushOffers(queue, Everybody(), NoBlocks(), NoDevices(), journal)
    sent_at = NOW - YOUNG_MS_MAX - 1
    old = Entry(chat_id=CHAT, sequence=7, kind="message", sender=ALICE, created_at=sent_at)
    members = {BOB: Member("member", NOW, 1)}
    await PushNotifier(offers, clock).notify([([old], (), True)], members)
    assert results(journal) == ["late"]
    assert queue.of(BOB) == []


class Others:
    """Other processes that can be asked."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = answers

    async def ask(
        self, subject: str, asked: bytes, gateways: Collection[str] | None = None
    ) -> Mapping[str, bytes]:
        return self._answers


async def test_each_process_is_heard_once_and_a_newer_version_is_left_out() -> None:
    own, other = PushJournal(ManualClock()), PushJournal(ManualClock())
    own.lost((BOB,), CHAT, (7,), "failed")
    other.lost((BOB,), CHAT, (7,), "dropped")
    question = JournalQuestion(BOB, CHAT, 7)
    asked = msgspec.msgpack.encode(question)
    answers = {
        "me": answer_with(own)(asked),
        "other": answer_with(other)(asked),
        "newer": msgspec.msgpack.encode([{"result": "teleported"}]),
    }
    found = await ClusterPushes("me", own, Others(answers)).find(question)
    assert [one.result for one in found] == ["failed", "dropped"]


def test_what_nobody_kept_is_not_guessed() -> None:
    assert push_sentence([]) == NOT_KEPT
    both = [PushRecord(result="muted"), PushRecord(result="sent", place="device phone by fcm")]
    assert push_sentence(both) == "A push notice was sent to device phone by fcm."
