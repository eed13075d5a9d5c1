# SPDX-License-Identifier: Apache-2.0
"""Exports: the signature at their end, and files that no import accepts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.contract.moving_ground import export_of, lines_of
from tests.support.clock import NOW
from tests.support.users import BOB
from tests.unit.small_deployment import ALICE, CHAT
from tidings.actions.export.exporting import (
    ChangedDuringExport,
    ExportProof,
    Unproven,
    export_all,
)
from tidings.actions.export.importing import Damaged, OtherImport, check, import_all
from tidings.model.entries import Person
from tidings.model.ids import ChatId, UserKey
from tidings.ports.export_engines import ExportProgress
from tidings.ports.export_facts import (
    ChatFact,
    EntryFact,
    ExportEnd,
    Fact,
    MemberFact,
    ReactionFact,
    UserFact,
)
from tidings.ports.export_inbox_facts import JobFact
from tidings.ports.secrets import MasterKey, master_key

OLD, NEW = master_key(b"o" * 32), master_key(b"n" * 32)


@dataclass(frozen=True)
class Ring:
    """Master keys as a deployment has them, in the middle of a rotation or not."""

    current: MasterKey | None
    previous: tuple[MasterKey, ...] = ()


def proof_of(current: MasterKey | None, *previous: MasterKey) -> ExportProof:
    ring: Any = Ring(current, previous)
    return ExportProof(ring)


def a_user(user: UserKey) -> UserFact:
    return UserFact(user_id=user, created_at=NOW, updated_at=NOW)


class Users:
    """A source with two users."""

    epoch = "e"

    async def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        yield [a_user(user) for user in (ALICE, BOB)]

    def __init__(self, *changed: str) -> None:
        self._changed = list(changed)

    async def changed(self) -> list[str]:
        return self._changed


async def signed(proof: ExportProof) -> list[bytes]:
    """The lines of an export with this proof."""
    written: list[bytes] = []
    source: Any = Users()
    await export_all(source, NOW, written.append, lambda _: None, proof)
    return lines_of(b"".join(written))


@pytest.mark.parametrize("reader", [(OLD,), (NEW, OLD)], ids=["the same key", "rotated since"])
async def test_whoever_has_the_key_accepts_the_export(reader: tuple[MasterKey, ...]) -> None:
    assert check(await signed(proof_of(OLD)), proof_of(*reader)).counts == {"user": 2}


async def test_an_export_is_not_signed_without_a_key() -> None:
    with pytest.raises(Unproven, match="cannot be signed"):
        await signed(proof_of(None))


@pytest.mark.parametrize("reader", [proof_of(NEW), proof_of(None)], ids=["another key", "no key"])
async def test_a_key_that_is_not_there_accepts_nothing(reader: ExportProof) -> None:
    with pytest.raises(Unproven, match=f"the master key {OLD.key_id}, which is not available"):
        check(await signed(proof_of(OLD)), reader)


async def test_a_changed_export_is_not_accepted_by_its_own_digest() -> None:
    lines = await signed(proof_of(OLD))
    end = msgspec.json.decode(lines[-1], type=ExportEnd)
    changed = lines_of(export_of(a_user(ALICE)))
    sound = msgspec.json.decode(changed[-1], type=ExportEnd)
    for forged, reason in (
        (sound, "it has no signature"),
        (msgspec.structs.replace(sound, master_key_id=OLD.key_id), "it has no signature"),
        (
            msgspec.structs.replace(sound, master_key_id=OLD.key_id, mac=end.mac),
            "it was changed after",
        ),
    ):
        with pytest.raises(Unproven, match=reason):
            check([*changed[:-1], msgspec.json.encode(forged) + b"\n"], proof_of(OLD))


async def test_an_export_of_what_changed_meanwhile_has_no_end() -> None:
    written: list[bytes] = []
    source: Any = Users("chat 1", "chat 2")
    with pytest.raises(ChangedDuringExport, match="2 chats or inboxes") as caught:
        await export_all(source, NOW, written.append, lambda _: None)
    assert caught.value.names == ["chat 1", "chat 2"]
    with pytest.raises(Damaged, match="the end is missing"):
        check(lines_of(b"".join(written)))


# Lines that do not belong together.


def a_chat(chat: ChatId = CHAT, type_: str = "direct") -> ChatFact:
    kind: Any = type_
    return ChatFact(chat_id=chat, tenant="acme", type=kind, creator=ALICE, created_at=NOW)


def a_member(user: UserKey, chat: ChatId = CHAT) -> MemberFact:
    return MemberFact(
        chat_id=chat,
        user_id=user,
        role="member",
        joined_at=NOW,
        joined=1,
        delivered=0,
        read=0,
        read_number=0,
    )


def an_entry(*people: UserKey) -> EntryFact:
    return EntryFact(
        chat_id=CHAT,
        sequence=1,
        kind="created",
        sender=ALICE,
        created_at=NOW,
        number=0,
        last_message=0,
        active_at=NOW,
        mark="m",
        people=tuple(Person(user, "member") for user in people),
    )


def a_reaction(sequence: int) -> ReactionFact:
    return ReactionFact(chat_id=CHAT, sequence=sequence, emoji="👍", user_id=BOB, created_at=NOW)


def a_job(*users: str) -> JobFact:
    return JobFact(
        tenant="acme",
        inbox="news",
        notification_id="n1",
        number=0,
        users=users,
        posted_at=NOW,
        expires_at=NOW + 1,
    )


OTHER_CHAT = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZY")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ([a_chat(), a_member(ALICE), a_member(BOB)], "the chat before this line is incomplete"),
        ([a_chat(), a_member(ALICE), an_entry(ALICE)], "the chat before this line is incomplete"),
        ([a_chat(), a_member(ALICE, OTHER_CHAT)], "not a line that may follow"),
        ([a_chat(), an_entry(UserKey("acme:a b"))], "people has an impossible value"),
        (
            [a_chat(), a_member(ALICE), a_member(BOB), an_entry(ALICE), a_reaction(2)],
            "not a line that may follow",
        ),
        ([a_job("alice", "a b")], "users has an impossible value"),
    ],
)
def test_an_export_with_impossible_lines_is_damaged(facts: list[Fact], reason: str) -> None:
    with pytest.raises(Damaged, match=reason):
        check(lines_of(export_of(*facts)))


def test_an_export_with_such_lines_as_they_should_be_is_whole() -> None:
    pair: list[Fact] = [a_chat(), a_member(ALICE), a_member(BOB), an_entry(ALICE, BOB)]
    counts = check(lines_of(export_of(*pair, a_reaction(1), a_job("alice")))).counts
    assert (counts["entry"], counts["reaction"]) == (1, 1)


@dataclass
class HalfImported:
    """A store into which some lines of an export were written before."""

    begun: ExportProgress
    written: list[object] = field(default_factory=list)

    async def begin(self) -> ExportProgress:
        return self.begun

    async def write(self, facts: Sequence[object], progress: ExportProgress) -> None:
        self.written += facts

    async def finish(self, epoch: str) -> None:
        self.written.append(epoch)


async def test_a_shorter_export_is_not_the_one_that_was_begun() -> None:
    target: Any = HalfImported(ExportProgress(100, "0" * 64))
    with pytest.raises(OtherImport):
        await import_all(target, lines_of(export_of(a_job("alice"))), lambda _: None)
    assert target.written == []
