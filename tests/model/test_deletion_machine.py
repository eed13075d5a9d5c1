# SPDX-License-Identifier: Apache-2.0
"""Users are deleted and exported while others write, add and restart: the receipt always says what
happened, and an export has what its user wrote."""

from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import jwt
import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.model.product import Engine, Product
from tests.model.running import IS_SOAK, QUICK, SHORT, run, run_until
from tests.support.engine import ENGINES
from tidings.actions.chat.changes import change
from tidings.actions.identity.caller import Root
from tidings.actions.jobs.exports import PersonExports
from tidings.assembly.system import back_off
from tidings.delivery.rounds import TenantJobRunner
from tidings.model import limits
from tidings.model.chats import ChatType
from tidings.model.entries import Entry, Person
from tidings.model.ids import ChatId, UserKey, user_id, user_key
from tidings.model.refusals import Refusal, UserDeleted
from tidings.ports.tenant_jobs import TenantJob

T = TypeVar("T")

NAMES: Final = ("ann", "bob", "cat", "dan", "eve")
USERS: Final = [user_key("acme", name) for name in NAMES]
WANTED: Final = {
    *("deleted", "sent", "late send", "late add", "refused", "heir", "restart", "direct", "export"),
}

some_user = st.sampled_from(USERS)
some_users = st.lists(some_user, min_size=1, max_size=3, unique=True)
ROUNDS_MAX: Final = 500


class DeletionMachine(RuleBasedStateMachine):
    """Five users, of whom some are deleted, and the groups and direct chats that they are in."""

    processes = 1

    def __init__(self, engine: Engine, folder: Path, happened: Counter[str]) -> None:
        super().__init__()
        self.happened = happened
        self.product = Product(engine, folder, USERS, self.processes)
        self.members: dict[ChatId, set[UserKey]] = {}
        self.direct: set[ChatId] = set()
        self.deleted: dict[UserKey, int] = {}
        self.left: defaultdict[UserKey, Counter[str]] = defaultdict(Counter)
        """What the receipt of each deleted user has to say."""
        self.written: defaultdict[UserKey, list[tuple[ChatId, str]]] = defaultdict(list)
        self.sends = 0

    # What users do.

    @rule(creator=some_user, others=some_users, is_direct=st.booleans())
    def create(self, creator: UserKey, others: list[UserKey], is_direct: bool) -> None:
        others = [user for user in others if user != creator][: 1 if is_direct else None]
        if creator in self.deleted or (is_direct and not others):
            return
        kind: ChatType = "direct" if is_direct else "group"
        name = None if is_direct else "g"
        made = self.try_to(self.product.verbs.create(creator, kind, name, others, None), others)
        if made is None or made.chat_id in self.members:
            return
        self.members[made.chat_id] = {creator, *others}
        if is_direct:
            self.direct.add(made.chat_id)
            self.happened["direct"] += 1

    @precondition(lambda self: self.members)
    @rule(data=st.data(), user=some_user)
    def add(self, data: st.DataObject, user: UserKey) -> None:
        chat = data.draw(st.sampled_from(sorted(self.members)))
        present = sorted(self.members[chat] - self.deleted.keys())
        if chat in self.direct or not present or user in self.members[chat]:
            return
        try:
            added = self.try_to(self.product.verbs.put_member(present[0], chat, user, None), [user])
        except Refusal:
            return  # who is there may not add anybody
        if added is True:
            self.members[chat].add(user)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from(sorted(self.members)))
        present = sorted(self.members[chat] - self.deleted.keys())
        gone = [user for user in self.members[chat] if self.is_done(user)]
        if present and (chat in self.direct and gone):
            self.try_to(self.post(present[0], chat), gone)
        elif present and not (chat in self.direct and self.members[chat] & self.deleted.keys()):
            self.product.run(self.post(present[0], chat))
            self.happened["sent"] += 1

    # Deleting.

    @rule(user=some_user)
    def delete(self, user: UserKey) -> None:
        work = self.product.deployment.core.tenant_work
        self.product.run(work.verbs.delete_user(Root(), "acme", user_id(user)))
        if user in self.deleted:
            return
        self.deleted[user] = self.product.clock.now()
        for chat in self.members:
            self.count(user, chat)
        self.happened["deleted"] += 1

    def count(self, user: UserKey, chat: ChatId) -> None:
        if user in self.members[chat]:
            self.left[user]["direct_chats_left" if chat in self.direct else "groups_left"] += 1

    @precondition(lambda self: self.deleted and self.members)
    @rule(data=st.data(), is_send=st.booleans())
    def be_late(self, data: st.DataObject, is_send: bool) -> None:
        """A request that was checked before the user was deleted, and is carried out only now."""
        user = data.draw(st.sampled_from(sorted(self.deleted)))
        chat = data.draw(st.sampled_from(sorted(self.members)))
        if self.product.clock.now() >= self.deleted[user] + limits.USER_SETTLE_MS:
            return
        if is_send and user in self.members[chat]:
            try:
                self.product.run(self.post(user, chat))
            except Refusal:
                return
            self.happened["late send"] += 1
        elif not is_send and chat not in self.direct and user not in self.members[chat]:
            self.members[chat].add(user)
            self.product.run(self.add_late(chat, user))
            self.count(user, chat)
            self.happened["late add"] += 1

    async def add_late(self, chat: ChatId, user: UserKey) -> None:
        entry = Entry(chat_id=chat, kind="added", sender=user, people=(Person(user, "member"),))
        await change(self.product.deployment.core.appender, chat, lambda *_: [entry])

    @rule(user=some_user, is_restart=st.booleans())
    def export(self, user: UserKey, is_restart: bool) -> None:
        """Who is there gets all that they wrote, and nothing of others."""
        core, name = self.product.deployment.core, user_id(user)
        exports = PersonExports(core.store, core.vault, core.start_job, core.clock)
        if self.try_to(exports.start(Root(), "acme", name), [user]) is None:
            return
        if is_restart:
            self.product.run(self.runner().round())
            self.product.restart()
        self.finish(f"export-user-{name}")
        records = self.product.run(self.exported(f"export-user-{name}"))
        messages = [one for one in records if one["kind"] == "message"]
        assert {one["sender"] for one in messages} <= {name}
        found = [(one["chat"], one["client_message_id"]) for one in messages]
        assert sorted(found) == sorted(self.written[user])
        assert {one["content"] for one in messages} <= {"text"}
        self.happened["export"] += len(messages) > 1

    async def exported(self, job_id: str) -> list[dict[str, Any]]:
        core = self.product.deployment.core
        exports = PersonExports(core.store, core.vault, core.start_job, core.clock)
        records, cursor = list[dict[str, Any]](), None
        while True:
            part, cursor = await exports.part(Root(), "acme", job_id, cursor)
            records += [msgspec.json.decode(one) for one in part]
            if cursor is None:
                return records

    @rule(rounds=st.integers(1, 6))
    def work(self, rounds: int) -> None:
        runner = self.runner()
        for _ in range(rounds):
            self.product.run(runner.round())

    @rule(is_restart=st.booleans())
    def let_time_pass(self, is_restart: bool) -> None:
        self.product.clock.time += limits.SECOND_MS
        if is_restart:
            self.product.restart()
            self.happened["restart"] += 1

    # At the end.

    def teardown(self) -> None:
        try:
            for user in self.deleted:
                self.finish(f"delete-user-{user_id(user)}")
            self.check()
        finally:
            self.product.close()

    def finish(self, job_id: str) -> None:
        for _ in range(ROUNDS_MAX):
            job = self.job(job_id)
            if job is not None and job.state == "done":
                return
            if not self.product.run(self.runner().round()):
                self.product.clock.time += limits.SECOND_MS
        raise AssertionError(f"the job does not end: {self.job(job_id)}")

    def check(self) -> None:
        for user in self.deleted:
            counts = self.receipt(user)["counts"]
            for name in ("groups_left", "direct_chats_left"):
                assert counts.get(name, 0) == self.left[user][name], (user, counts)
            assert bool(self.written[user]) <= (counts.get("keys", 0) > 0)
            store = self.product.deployment.core.store
            assert self.product.run(store.data_keys.current(user)) is None
            assert self.product.run(store.chats.ids(user)) == []
        for chat, members in self.members.items():
            self.check_chat(chat, members - self.deleted.keys())

    def check_chat(self, chat: ChatId, members: set[UserKey]) -> None:
        for reader in members:
            read = self.product.log(reader, chat, up=True, only_messages=False, start=0, limit=50)
            for entry in self.product.run(read):
                if entry.kind == "message":
                    assert (entry.gone == "erased") == (entry.sender in self.deleted)
            row = self.product.run(self.product.verbs.get(reader, chat))
            assert row.member_count == len(members)
            members_of = self.product.deployment.core.store.chats.members
            roles = self.product.run(members_of(chat, reader))
            assert roles is not None and roles.keys() == members
            if chat not in self.direct:
                assert any(member.role == "owner" for member in roles.values())
                self.happened["heir"] += len(members) > 1

    # Helpers.

    def try_to(self, work: Coroutine[Any, Any, T], users: list[UserKey]) -> T | None:
        """What comes of it; None if it is refused, which it is exactly if a user is deleted."""
        is_refused = any(user in self.deleted for user in users)
        try:
            result = self.product.run(work)
        except UserDeleted:
            assert is_refused
            self.happened["refused"] += 1
            return None
        assert not is_refused
        return result

    async def post(self, user: UserKey, chat: ChatId) -> None:
        self.sends += 1
        name = f"m{self.sends}"
        await self.product.send(user, chat, name, "text", None)
        self.written[user].append((chat, name))

    def runner(self) -> TenantJobRunner:
        core = self.product.deployment.core
        return TenantJobRunner(
            jobs=core.store.tenant_jobs,
            kinds=core.tenant_work.kinds,
            clock=core.clock,
            holder="me",
            back_off=back_off,
        )

    def job(self, job_id: str) -> TenantJob | None:
        jobs = self.product.deployment.core.store.tenant_jobs
        return self.product.run(jobs.get("acme", job_id))

    def is_done(self, user: UserKey) -> bool:
        job = self.job(f"delete-user-{user_id(user)}") if user in self.deleted else None
        return job is not None and job.state == "done"

    def receipt(self, user: UserKey) -> dict[str, dict[str, int]]:
        job = self.job(f"delete-user-{user_id(user)}")
        assert job is not None and job.result is not None
        receipts = self.product.deployment.core.tenant_work.verbs.receipts
        (key,) = self.product.run(receipts.published())
        public = jwt.PyJWK(msgspec.to_builtins(key)).key
        return dict(msgspec.json.decode(jwt.PyJWS().decode(job.result, public, ["EdDSA"])))


class DeletionFleetMachine(DeletionMachine):
    """The same users, whose requests and jobs go to two processes."""

    processes = 2

    @rule()
    def go_to_the_other_process(self) -> None:
        self.product.switch()


@pytest.mark.slow
def test_a_deleted_user_leaves_what_the_receipt_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    seeds = range(16 if IS_SOAK else 2)
    happened = run_until(WANTED, DeletionMachine, engine_of("sqlite"), tmp_path, QUICK, seeds)
    assert {what for what in WANTED if not happened[what]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_a_deleted_user_leaves_what_the_receipt_says_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    run(DeletionMachine, engine_of(engine), tmp_path, SHORT, range(20))


@pytest.mark.soak
def test_two_processes_leave_what_the_receipt_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    run(DeletionFleetMachine, engine_of("dynamodb"), tmp_path, SHORT, range(10))
