# SPDX-License-Identifier: Apache-2.0
"""Verbs of chats at their limits, beside a store that does not answer, and in races."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.integration.cores import Deployment, open_deployment
from tests.support.intercepted import Intercepted
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.actions.chat import coalesced_receipts as receipts_module
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.chat.invites import AcceptInvite, Invitations, StrangerBudget
from tidings.actions.chat.reading import ListReactions
from tidings.actions.identity.caller import Root
from tidings.model import limits
from tidings.model.chat_settings import SLOW_MODE_SECONDS_MAX
from tidings.model.chats import Move, OwnSends, Receipt
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatNotFound,
    CursorInvalid,
    Forbidden,
    Invalid,
    LimitReached,
    MemberNotFound,
    QuotaReached,
    RateLimited,
    Refusal,
    StoreUnavailable,
    Unavailable,
)
from tidings.model.roles import Invites
from tidings.ports.bus import Invited, ReceiptMoved
from tidings.ports.log import Log


class Down:
    """Fails calls of these names, after or instead of what they do."""

    def __init__(self, *names: str, after: bool = False) -> None:
        self._names = names
        self._after = after

    async def __call__(self, name: str, call: Any) -> Any:
        if name in self._names and not self._after:
            raise StoreUnavailable
        result = await call()
        if name in self._names:
            raise StoreUnavailable
        return result


def with_trouble(port: object, down: Down) -> Any:
    return Intercepted(port, down)


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN, BOB, CAT, DAN)
        yield deployment


def counting(opened: Deployment) -> StrangerBudget:
    store = opened.core.store
    return StrangerBudget(store.chats, store.budgets, opened.clock)


async def ask_always(_tenant: str) -> Invites:
    return "ask"


def inviting(opened: Deployment, invites: Any = None) -> Invitations:
    core = opened.core
    return Invitations(invites or core.store.invites, ask_always, core.bus, opened.clock)


async def invited(opened: Deployment, invitations: Invitations, *users: Any) -> ChatId:
    """A group of ann's, into which these users are invited."""
    create = replace(opened.core.verbs.create, strangers=counting(opened), invitations=invitations)
    return (await create(ANN, "group", "Team", users, None)).chat_id


# Creating.


async def test_without_quotas_nobody_counts_chats(opened: Deployment) -> None:
    create = replace(opened.core.verbs.create, quotas=None)
    assert (await create(ANN, "direct", None, [BOB], None)).is_new


async def test_a_used_up_quota_ends_chats_and_messages_until_tomorrow(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    opened.clock.time += limits.DAY_MS - opened.clock.time % limits.DAY_MS - 1_000
    await opened.core.quotas.close()  # it would read that the tenant has no quota
    for kind in ("chats", "messages"):
        opened.core.quotas.meter(kind, "acme").left = 0
    with pytest.raises(QuotaReached) as no_chat:
        await opened.core.verbs.create(ANN, "group", "One more", [BOB], None)
    answers: list[Entry | Refusal] = []
    opened.core.verbs.post(ANN, chat, "m1", "x", None, None, lambda got, _: answers.append(got))
    [no_message] = answers
    assert isinstance(no_message, QuotaReached)
    assert no_chat.value.retry_after_ms == no_message.retry_after_ms == 1_000


@pytest.mark.parametrize(
    ("down", "given_back"),
    [
        (Down("create"), True),
        (Down("create", after=True), False),
        (Down("create", "row"), False),
    ],
    ids=["nothing was written", "the chat is there", "nobody knows"],
)
async def test_strangers_are_given_back_only_if_nobody_was_added(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch, down: Down, given_back: bool
) -> None:
    monkeypatch.setattr(limits, "USER_DAY_STRANGERS_MAX", 1)
    strangers = counting(opened)
    create = replace(opened.core.verbs.create, strangers=strangers)
    with pytest.raises(StoreUnavailable):
        await replace(create, chats=with_trouble(create.chats, down))(
            ANN, "direct", None, [BOB], None
        )
    if given_back:
        assert (await create(ANN, "direct", None, [CAT], None)).is_new
    else:
        with pytest.raises(RateLimited):
            await create(ANN, "direct", None, [CAT], None)


async def test_a_cursor_of_another_form_is_invalid(opened: Deployment) -> None:
    listing = opened.core.verbs.list
    cursor = listing.cursors.seal("chats", ANN, msgspec.json.encode({"not": "a place"}))
    with pytest.raises(CursorInvalid):
        await listing(ANN, cursor, 10)


# Members.


@pytest.mark.attack("D02")
async def test_who_is_removed_while_members_are_read_sees_none(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    members = opened.core.verbs.members
    assert (await members.one(ANN, chat, BOB)).profile.user == BOB
    for one, missing in ((DAN, ChatNotFound), (ANN, MemberNotFound)):
        with pytest.raises(missing):
            await members.one(one, chat, CAT)
    with pytest.raises(ChatNotFound):
        await members(DAN, chat)

    async def removed(name: str, call: Any) -> None:
        return None

    receipts: Any = Intercepted(members.receipts, removed)
    meanwhile = replace(members, receipts=receipts)
    with pytest.raises(ChatNotFound):
        await meanwhile(ANN, chat)
    with pytest.raises(MemberNotFound):
        await meanwhile.one(ANN, chat, BOB)


# Inviting.


async def test_who_cannot_be_invited_does_not_keep_the_others_out(opened: Deployment) -> None:
    first = await invited(opened, inviting(opened), BOB)
    await opened.core.verbs.decline_invite(BOB, first)
    await inviting(opened).ask_all(ANN, first, "Team", [BOB, CAT])
    asked = [event.user for event in opened.events if isinstance(event, Invited)]
    assert asked == [BOB, CAT], "bob was asked once: before he declined"


async def test_invitations_that_cannot_be_stored_are_told_as_such(opened: Deployment) -> None:
    invites = with_trouble(opened.core.store.invites, Down("put"))
    with pytest.raises(StoreUnavailable):
        await invited(opened, inviting(opened, invites), BOB, CAT)


async def test_who_was_added_meanwhile_accepts_what_is_left_of_the_invitation(
    opened: Deployment,
) -> None:
    chat = await invited(opened, inviting(opened), BOB)
    await opened.writing.put_member(ANN, chat, BOB, None)
    head = len(await opened.log(chat, ANN))
    await opened.core.verbs.accept_invite(BOB, chat)
    assert len(await opened.log(chat, ANN)) == head
    assert await opened.core.verbs.invites(BOB) == []


async def test_who_is_added_while_accepting_is_added_once(opened: Deployment) -> None:
    chat = await invited(opened, inviting(opened), BOB)

    async def add_before_the_invite_is_read(name: str, call: Any) -> Any:
        if name == "get":
            await opened.writing.put_member(ANN, chat, BOB, None)
        return await call()

    accept: AcceptInvite = opened.core.verbs.accept_invite
    store: Any = Intercepted(accept.invites, add_before_the_invite_is_read)
    await replace(accept, invites=store)(BOB, chat)
    kinds = [entry.kind for entry in await opened.log(chat, ANN)]
    assert kinds == ["created", "added"]


async def test_a_full_group_takes_nobody_in(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await invited(opened, inviting(opened), BOB)
    monkeypatch.setattr(limits, "GROUP_MEMBERS_MAX", 1)
    with pytest.raises(LimitReached, match="a group has at most 1 members"):
        await opened.core.verbs.accept_invite(BOB, chat)
    with pytest.raises(LimitReached, match="a group has at most 1 members"):
        await opened.writing.put_member(ANN, chat, CAT, None)
    monkeypatch.undo()
    await opened.core.verbs.accept_invite(BOB, chat)


async def test_a_member_is_given_a_role_where_strangers_are_invited(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    put = replace(opened.core.verbs.put_member, invitations=inviting(opened))
    assert await put._ask(ANN, chat, BOB, "admin") is False
    members = await opened.core.verbs.members(ANN, chat)
    assert members[BOB].member.role == "admin"
    assert not any(isinstance(event, Invited) for event in opened.events)


# Groups.


async def test_the_name_that_a_group_has_is_no_change(opened: Deployment) -> None:
    chat = await opened.group(ANN, name="Team")
    await opened.core.verbs.rename(ANN, chat, "Team")
    assert [entry.kind for entry in await opened.log(chat, ANN)] == ["created"]
    await opened.core.verbs.rename(ANN, chat, "Crew")
    assert [entry.kind for entry in await opened.log(chat, ANN)] == ["created", "renamed"]


async def test_only_an_owner_deletes_a_group(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    with pytest.raises(Forbidden, match="only an owner"):
        await opened.core.verbs.delete.as_owner(BOB, chat)
    await opened.core.verbs.delete.as_owner(ANN, chat)


# Receipts.


class LostReceipts:
    """A store that takes no move, and tells whose moves it was given."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.asked: asyncio.Queue[UserKey] = asyncio.Queue()
        self._refusal = refusal

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        for move in moves:
            self.asked.put_nowait(move.user)
        if self._refusal is not None:
            raise self._refusal
        return []


async def test_a_receipt_that_cannot_be_written_is_not_told_to_others(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    store: Any = LostReceipts(StoreUnavailable())
    receipts = CoalescedReceipts(store, opened.core.bus)
    receipts.note(Move(BOB, chat, 1, 1))
    await receipts.close()
    assert await store.asked.get() == BOB
    assert not any(isinstance(event, ReceiptMoved) for event in opened.events)


async def test_of_those_who_have_not_read_so_many_are_remembered(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts_module, "BEHIND_MAX", 1)
    chat = await opened.group(ANN, BOB, CAT)
    store: Any = LostReceipts()
    receipts = CoalescedReceipts(store, opened.core.bus)
    for user in (ANN, BOB):
        await opened.writing.send(user, chat)
        assert await store.asked.get() == user
    await opened.writing.send(ANN, chat)  # is not tried: she has not read all before it
    await opened.writing.send(CAT, chat)
    assert await store.asked.get() == CAT
    await opened.writing.send(ANN, chat)  # is tried: it is forgotten that she has not
    await receipts.close()
    assert await store.asked.get() == ANN
    assert store.asked.empty()


# Reading.


async def test_who_is_removed_meanwhile_sees_no_reactions(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    sent = await opened.writing.send(ANN, chat)

    async def removed_before(name: str, call: Any) -> Any:
        return None if name == "reactions" else await call()

    log: Any = Intercepted(opened.core.store.log, removed_before)
    with pytest.raises(ChatNotFound):
        await ListReactions(log)(BOB, chat, sent.sequence)


async def test_the_list_asks_for_the_own_message_before_it_reads_the_rows(
    opened: Deployment,
) -> None:
    chat = await opened.group(ANN, BOB)
    sent = await opened.writing.send(ANN, chat)
    calls: list[str] = []

    async def note(name: str, call: Any) -> Any:
        calls.append(name)
        return await call()

    chats: Any = Intercepted(opened.core.store.chats, note)
    listing = replace(opened.core.verbs.list, chats=chats)
    for own_message in (None, (chat, sent.sequence)):
        (row,), _ = await listing(ANN, None, 10, own_message)
        assert row.last is not None and row.last.sequence == sent.sequence
    assert calls == ["listing", "look", "listing"]


@pytest.mark.parametrize("seconds", [-1, SLOW_MODE_SECONDS_MAX + 1])
async def test_slow_mode_takes_at_most_an_hour(opened: Deployment, seconds: int) -> None:
    chat = await opened.group(ANN)
    with pytest.raises(Invalid):
        await opened.core.verbs.change_settings(
            Root(), "acme", chat, frozen=None, slow_mode_seconds=seconds
        )


async def test_settings_wait_until_no_older_process_runs(opened: Deployment) -> None:
    chat = await opened.group(ANN)
    older = SimpleNamespace(may_append=lambda kind: kind != "settings")
    change = replace(opened.core.verbs.change_settings, log=cast(Log, older))
    with pytest.raises(Unavailable):
        await change(Root(), "acme", chat, frozen=True, slow_mode_seconds=None)


async def test_pins_and_options_wait_until_no_older_process_runs(opened: Deployment) -> None:
    chat, verbs = await opened.group(ANN), opened.core.verbs
    older = cast(Log, SimpleNamespace(may_append=lambda kind, has_options=False: False))
    with pytest.raises(Unavailable):
        await replace(verbs.pin, log=older)(ANN, chat, 2)
    told: list[Entry | Refusal] = []
    options = SendOptions(mentions=("ann",))
    replace(verbs.post, log=older)(
        ANN, chat, "m1", "hello", None, None, lambda result, _: told.append(result), options=options
    )
    assert [type(one) for one in told] == [Unavailable]
