# SPDX-License-Identifier: Apache-2.0
"""Verification of content, keys and inboxes, fact by fact."""

from pathlib import Path
from typing import Any

import msgspec

from tests.support.clock import NOW
from tests.support.users import BOB
from tests.unit.small_deployment import ALICE, CHAT, open_small_deployment, write
from tidings.actions.export.verifying import FactChecks
from tidings.model.entries import Kind, Person
from tidings.ports.export_facts import ChatFact, DataKeyFact, EntryFact, Fact, entry_fact
from tidings.ports.export_inbox_facts import BroadcastFact, NotificationFact, ReadStateFact

_CHAT = ChatFact(chat_id=CHAT, tenant="acme", type="direct", creator=ALICE, created_at=NOW)
_CREATED = EntryFact(
    chat_id=CHAT, sequence=1, kind="created", sender=ALICE, created_at=NOW, number=0,
    last_message=0, active_at=NOW, mark="m", people=(Person(ALICE, "member"),),
)  # fmt: skip


def found_in(*facts: Fact, unwrapping: Any = None) -> list[str]:
    checks = FactChecks(unwrapping)
    found = [violation for fact in facts for violation in checks.take(fact)]
    return [violation.what for violation in (*found, *checks.finish())]


def _with_another_end(content: bytes) -> bytes:
    return content[:-1] + bytes((content[-1] ^ 1,))


async def test_content_and_its_keys_are_opened(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path / "data") as world:
        entry = await write(world.vault, "hello")
        key = await world.store.data_keys.current(ALICE)
        assert key is not None
        wrapping = world.vault.wrapping
        message = msgspec.structs.replace(
            entry_fact(entry, NOW), sequence=2, number=1, last_message=2, created_at=NOW,
            active_at=NOW,
        )  # fmt: skip
        fact = DataKeyFact(
            author=ALICE, generation=1, wrapped=key.wrapped, master_key_id=key.master_key_id
        )

        def found(fact: DataKeyFact, message: EntryFact) -> str:
            what = found_in(fact, _CHAT, _CREATED, message, unwrapping=wrapping)
            # The chat has no member, so that the log's tale about Alice is always told.
            assert what.pop().startswith(f"member {ALICE}")
            return "".join(what)

        assert entry.box is not None
        changed = msgspec.structs.replace(message, box=_with_another_end(entry.box))
        stolen = msgspec.structs.replace(fact, author=BOB)
        spoilt = msgspec.structs.replace(fact, wrapped=_with_another_end(key.wrapped))
        unknown = msgspec.structs.replace(fact, master_key_id="another")
        erased = DataKeyFact(author=ALICE, generation=1)
        assert found(fact, message) == found(erased, message) == found(erased, changed) == ""
        assert found(fact, changed) == "its content was changed"
        assert found(spoilt, message).endswith("it was changed after it was stored")
        assert found(unknown, message).endswith("which is not available")
        assert "generation 1, is missing" in found(stolen, message)


def test_marks_and_sequences_of_inboxes() -> None:
    news = BroadcastFact(
        tenant="acme", inbox="news", sequence=3, kind="broadcast", posted_at=NOW, mark="m",
        expires_at=NOW,
    )  # fmt: skip
    posted = NotificationFact(
        tenant="acme", inbox="news", notification_id="n", posted_at=NOW, expires_at=NOW,
        recipients=1, finished_jobs=(0,),
    )  # fmt: skip
    read = ReadStateFact(user_id=ALICE, inbox="news", announced=3, singly={2: NOW})
    assert found_in(posted, news, read) == []

    twice = msgspec.structs.replace(posted, finished_jobs=(0, 1))
    ahead = [
        msgspec.structs.replace(read, announced=4),
        msgspec.structs.replace(read, singly={4: NOW}),
    ]
    assert found_in(twice) == ["a finished job is not one of its 1 jobs"]
    assert found_in(news, news) == ["broadcast 3 follows 3"]
    for state in ahead:
        assert found_in(news, state) == ["a read mark is beyond the last broadcast, 3"]


def test_a_deleted_chat_has_no_members_and_nobody_outside_has_a_role() -> None:
    def then(sequence: int, kind: Kind, *people: Person) -> EntryFact:
        return msgspec.structs.replace(_CREATED, sequence=sequence, kind=kind, people=people)

    assert found_in(_CHAT, _CREATED, then(2, "deleted")) == []
    (what,) = found_in(_CHAT, _CREATED, then(2, "role", Person(BOB, "admin")))
    assert what == f"member {ALICE}: the log says ('member', 1), stored is None"
