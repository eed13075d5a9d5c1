# SPDX-License-Identifier: Apache-2.0
"""Parts of deletion jobs that are rarely met: pages, slow keys, chats that go, and the replay."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.engines import engine as engine
from tests.integration.rest_world import NOWHERE, TENANT, Rest
from tests.integration.test_rest_tenant_deletion import finished
from tests.integration.test_rest_user_deletion import a_runner
from tidings.actions.inbox.showing import author_of
from tidings.actions.jobs import tenant_deletion, user_deletion
from tidings.actions.jobs.receipts import ErasureReceipts
from tidings.actions.jobs.user_deletion import ChatPart, ContentPart, InboxPart, UserDeletion
from tidings.actions.webhooks.raising import RaiseUserDeleted
from tidings.model.ids import ChatId, UserKey, tenant_itself, user_key
from tidings.model.limits import DAY_MS
from tidings.model.notifications import Copy
from tidings.model.refusals import StoreUnavailable
from tidings.ports.erasing import LedgerEntry
from tidings.ports.people import Listed
from tidings.ports.tenant_jobs import NotYet

pytestmark = pytest.mark.asyncio(loop_scope="module")


class GivenLedger:
    """A ledger whose entries the store does not know."""

    def __init__(self, *entries: LedgerEntry) -> None:
        self.entries = list(entries)
        self.recorded: list[LedgerEntry] = []

    async def append(self, entry: LedgerEntry) -> None:
        self.entries.append(entry)
        self.recorded.append(entry)

    async def finish(self, entry: LedgerEntry) -> None:
        await self.note(entry)

    async def unknown(self) -> list[LedgerEntry]:
        return list(self.entries)

    async def note(self, entry: LedgerEntry) -> None:
        self.entries.remove(entry)


def part_of(rest: Rest, kind: type[object]) -> object:
    raising = rest.core.tenant_work.kinds["user.delete"]
    assert isinstance(raising, RaiseUserDeleted)
    deletion = raising.steps
    assert isinstance(deletion, UserDeletion)
    return next(part for part in deletion.parts if isinstance(part, kind))


async def test_every_kind_of_erasure_is_carried_out_again(rest: Rest) -> None:
    backend = await rest.tenant("again")
    ann = await rest.user("ann", "again")
    bob = await rest.user("bob", "again")
    chat = await ann.group("bob")
    await ann.send(chat, "m1")
    await bob.send(chat, "m2")
    await backend.ok("PUT", "/v1/tenants/again/inboxes/news", {"title": "News"})
    ledger = GivenLedger(
        LedgerEntry("content", user_key("again", "ann"), 1),
        LedgerEntry("chat", chat, 2),
        LedgerEntry("chat", NOWHERE, 3),
        LedgerEntry("inbox", "again/news", 4),
        LedgerEntry("user", user_key("again", "bob"), 5),
    )
    replay = replace(rest.core.tenant_work.replay, ledger=ledger)
    assert await replay() == 5 and ledger.entries == [] and await replay() == 0
    assert await rest.core.store.data_keys.current(user_key("again", "ann")) is None
    assert await ann.refused("POST", f"/v1/chats/{chat}/messages", MESSAGE) == (
        404, "chat.not_found"
    )  # fmt: skip
    await finished(rest, "again", "delete-inbox-news")
    assert (await finished(rest, "again", "delete-user-bob"))["counts"]["keys"] == 1
    ledger.entries.append(LedgerEntry("tenant", "again", 6))
    assert await replay() == 1
    done = await finished(rest, "again", "delete-tenant-again")
    assert done["counts"] == {"users": 1}  # nothing else was left, not even a key


async def test_an_inbox_that_was_made_after_the_deletion_stays(rest: Rest) -> None:
    """The store may have failed to record a deletion that it carried out."""
    backend = await rest.tenant("anew")
    path = "/v1/tenants/anew/inboxes/news"
    await backend.ok("PUT", path, {"title": "News"})
    erasure = LedgerEntry("inbox", "anew/news", rest.clock.now())
    await backend.ok("DELETE", path)
    await finished(rest, "anew", "delete-inbox-news")
    await backend.ok("PUT", path, {"title": "New"})
    replay = replace(rest.core.tenant_work.replay, ledger=GivenLedger(erasure))
    assert await replay() == 1
    assert (await backend.ok("GET", path))["title"] == "New"
    later = replace(erasure, at=rest.clock.now() + 1)
    assert await replace(replay, ledger=GivenLedger(later))() == 1
    assert await backend.refused("GET", path) == (404, "inbox.not_found")


async def test_whoever_deleted_a_chat_gets_its_job_after_a_replay(rest: Rest) -> None:
    """A process that dies after the record in the ledger leaves the deletion to the next start."""
    owner, member = await rest.users("owner", "member")
    for actor, by in (
        (owner, user_key(TENANT, "owner")),
        (await rest.tenant(), tenant_itself(TENANT)),
    ):
        chat = await owner.group("member")
        ledger = GivenLedger(LedgerEntry("chat", chat, 1, by))
        assert await replace(rest.core.tenant_work.replay, ledger=ledger)() == 1
        job = await actor.ok("DELETE", f"/v1/chats/{chat}")
        assert job["job"] == f"delete-chat-{chat}"
        assert await member.refused("DELETE", f"/v1/chats/{chat}") == (404, "chat.not_found")


async def test_a_deletion_is_recorded_with_whoever_asked_for_it(rest: Rest) -> None:
    owner, _ = await rest.users("owner", "member")
    chat = await owner.group("member")
    ledger = GivenLedger()
    erasures = replace(rest.core.verbs.delete.erasures, ledger=ledger)
    delete = replace(rest.core.verbs.delete, erasures=erasures)
    await delete.as_owner(user_key(TENANT, "owner"), ChatId(chat))
    (recorded,) = ledger.recorded
    assert ledger.entries == []
    assert (recorded.subject, recorded.by) == (chat, user_key(TENANT, "owner"))


MESSAGE = {"client_message_id": "late", "content": "late"}


async def test_many_inboxes_and_many_users_are_looked_at_in_pages(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_deletion, "INBOXES_AT_ONCE", 1)
    backend = await rest.tenant("pages")
    for name in ("a", "b", "c"):
        await backend.ok("PUT", f"/v1/tenants/pages/inboxes/{name}", {"title": name})
    ann = user_key("pages", "ann")
    await rest.core.store.copies.read_before(ann, "c", rest.clock.now(), 0)
    part = part_of(rest, InboxPart)
    assert isinstance(part, InboxPart)
    assert (await part.find(ann)).names == ["c/"]
    for number in range(27):
        await backend.ok("PUT", f"/v1/tenants/pages/users/u{number}")
    await backend.ok("DELETE", "/v1/tenants/pages/inboxes/a")
    await finished(rest, "pages", "delete-inbox-a")


async def test_a_slow_key_does_not_hold_up_the_round(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_deletion, "ERASE_SECONDS", 0.001)
    part = part_of(rest, ContentPart)
    assert isinstance(part, ContentPart)

    class SlowVault:
        async def erase(self, author: UserKey) -> int:
            await asyncio.Event().wait()
            return 1

    slow = replace(part, vault=SlowVault())
    with pytest.raises(NotYet):
        await slow.remove(user_key(TENANT, "ann"), ["key"])


async def test_a_chat_that_is_gone_or_left_meanwhile_is_no_trouble(rest: Rest) -> None:
    anna, _ = await rest.users("anna", "bert")
    chat = await anna.group("bert")
    part = part_of(rest, ChatPart)
    assert isinstance(part, ChatPart)
    await part.remove(user_key(TENANT, "stranger"), [NOWHERE, chat])
    members = await anna.ok("GET", f"/v1/chats/{chat}/members")
    assert len(members["data"]) == 2


async def test_receipt_keys_that_do_not_open_are_no_500(rest: Rest) -> None:
    core = rest.core
    await core.tenant_work.verbs.receipts.published()

    class OtherSecrets:
        async def sealed(self, name: str) -> tuple[str, bytes]:
            return core.vault.wrapping.key_id, b"changed after it was stored"

    receipts = ErasureReceipts(
        OtherSecrets(),  # type: ignore[arg-type]
        core.vault.wrapping,
        core.clock,
        core.chance,
    )
    with pytest.raises(StoreUnavailable):
        await receipts.published()


async def test_chats_that_are_being_deleted_hide_no_others(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_deletion, "PENDING_MAX", 1)
    monkeypatch.setattr(tenant_deletion, "PENDING_MAX", 1)
    await rest.tenant("behind")
    ann = await rest.user("ann", "behind")
    chats = []
    for _ in range(5):
        rest.clock.time += 1  # chats are listed by the time of their creation
        chats.append(await ann.group())
    kept = chats[:2]
    for chat in chats[2:]:
        await ann.ok("DELETE", f"/v1/chats/{chat}")
    part = part_of(rest, ChatPart)
    assert isinstance(part, ChatPart)
    assert (await part.find(user_key("behind", "ann"))).names == [kept[1]]
    await rest.root.ok("DELETE", "/v1/tenants/behind")
    done = await finished(rest, "behind", "delete-tenant-behind")
    assert done["counts"]["chats"] == 2
    for chat in kept:
        state = await rest.core.store.log.state(ChatId(chat))
        assert state is not None and state.is_deleted


async def test_what_a_late_request_adds_goes_with_its_tenant(rest: Rest) -> None:
    backend = await rest.tenant("late")
    await backend.ok("PUT", "/v1/tenants/late/users/mia")
    await rest.root.ok("DELETE", "/v1/tenants/late")
    runner = a_runner(rest)
    for _ in range(9):
        await runner.round()
    ann, tenant = user_key("late", "ann"), author_of("late")
    now = rest.clock.now()
    await rest.core.store.users.put(ann, display_name="Ann", phone_number=None, now=now)
    await rest.core.vault.seal_text(tenant, "late", "late")
    done = await finished(rest, "late", "delete-tenant-late")
    assert done["counts"]["users"] == 2
    mark = await rest.core.store.users.get(ann)
    assert mark is not None and mark.deleted_at is not None and mark.display_name is None
    assert await rest.core.store.data_keys.current(tenant) is None


async def test_the_many_copies_of_one_user_do_not_hold_up_the_round(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_deletion, "PENDING_MAX", 2)
    monkeypatch.setattr(tenant_deletion, "COPY_BATCHES", 1)
    backend = await rest.tenant("full")
    store, now = rest.core.store, rest.clock.now()
    for name in ("ann", "bob", "cat"):
        await backend.ok("PUT", f"/v1/tenants/full/users/{name}")
    ann = user_key("full", "ann")
    for number in range(5):
        one = Copy(
            notification_id=f"n{number}", category=None, received_at=now, expires_at=now + DAY_MS
        )
        await store.copies.deliver([ann, user_key("full", "cat")], "news", one)
    await backend.ok("PUT", "/v1/tenants/full/inboxes/news", {"title": "News"})
    deletion = rest.core.tenant_work.kinds["inbox.delete"]
    await backend.ok("DELETE", "/v1/tenants/full/inboxes/news")
    job = await store.tenant_jobs.get("full", "delete-inbox-news")
    assert job is not None
    after = await deletion.step(job.at("broadcasts_emptied"))
    assert after.cursor is None and after.state == "running"
    assert len(await store.copies.newest(ann, "news", before=None, limit=9)) == 3
    await finished(rest, "full", "delete-inbox-news")
    for name in ("ann", "cat"):
        user = user_key("full", name)
        assert await store.copies.newest(user, "news", before=None, limit=9) == []


@pytest.mark.parametrize("first", ["users", "inboxes"])
async def test_a_user_and_an_inbox_that_are_deleted_at_once_leave_nothing(
    rest: Rest, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_deletion, "COPY_BATCHES", 1)
    tenant = f"both-{first}"
    backend = await rest.tenant(tenant)
    store, now, ann = rest.core.store, rest.clock.now(), user_key(tenant, "ann")
    await backend.ok("PUT", f"/v1/tenants/{tenant}/users/ann")
    await backend.ok("PUT", f"/v1/tenants/{tenant}/inboxes/news", {"title": "News"})
    one = Copy(notification_id="n1", category=None, received_at=now, expires_at=now + DAY_MS)
    await store.copies.deliver([ann], "news", one)
    paths = [f"/v1/tenants/{tenant}/users/ann", f"/v1/tenants/{tenant}/inboxes/news"]
    for path in sorted(paths, key=lambda path: first not in path):
        await backend.ok("DELETE", path)
    await finished(rest, tenant, "delete-inbox-news")
    await finished(rest, tenant, "delete-user-ann")
    assert await store.copies.newest(ann, "news", before=None, limit=9) == []


async def test_copies_in_an_inbox_that_is_being_deleted_are_found(rest: Rest) -> None:
    backend = await rest.tenant("going")
    store, now, ann = rest.core.store, rest.clock.now(), user_key("going", "ann")
    for inbox in ("empty", "news"):
        await backend.ok("PUT", f"/v1/tenants/going/inboxes/{inbox}", {"title": inbox})
    one = Copy(notification_id="n1", category=None, received_at=now, expires_at=now + DAY_MS)
    await store.copies.deliver([ann], "news", one)
    part = part_of(rest, InboxPart)
    assert isinstance(part, InboxPart)
    for inbox in ("empty", "news"):
        await backend.ok("DELETE", f"/v1/tenants/going/inboxes/{inbox}")
    assert await store.inbox_settings.config("going", "news") is None
    assert (await part.find(ann)).names == ["news/n1"]
    await part.remove(ann, ["news/n1"])
    assert (await part.find(ann)).names == ()


async def test_what_a_late_request_adds_goes_with_its_user(rest: Rest) -> None:
    backend = await rest.tenant("later")
    store, now, ann = rest.core.store, rest.clock.now(), user_key("later", "ann")
    await backend.ok("PUT", "/v1/tenants/later/users/ann")
    await backend.ok("PUT", "/v1/tenants/later/inboxes/news", {"title": "News"})
    started = await backend.ok("DELETE", "/v1/tenants/later/users/ann")
    runner, phase = a_runner(rest), started["phase"]
    while phase != user_deletion.SETTLING:
        assert await runner.round()
        phase = (await backend.ok("GET", "/v1/tenants/later/jobs/delete-user-ann"))["phase"]
    one = Copy(notification_id="n1", category=None, received_at=now, expires_at=now + DAY_MS)
    await store.copies.deliver([ann], "news", one)
    done = await finished(rest, "later", "delete-user-ann")
    assert done["counts"] == {"notifications": 1}
    assert await store.copies.newest(ann, "news", before=None, limit=9) == []


async def test_a_page_without_chats_is_not_the_end_of_the_list(rest: Rest) -> None:
    part = part_of(rest, ChatPart)
    assert isinstance(part, ChatPart)
    asked: list[str | None] = []

    class DeletedFirst:
        async def of_user(self, _user: UserKey, *, below: str | None, limit: int) -> Listed[Any]:
            asked.append(below)
            return Listed([], "deleted" if below is None else None)

    paged = replace(part, chats=DeletedFirst())
    assert (await paged.find(user_key(TENANT, "ann"))).names == []
    assert asked == [None, "deleted"]
