# SPDX-License-Identifier: Apache-2.0
"""Races around roles: whatever happens at once, a group that has members has an owner."""

import asyncio
from collections.abc import Coroutine
from itertools import groupby
from typing import Any

import pytest

from tests.integration.cores import Deployment, Writing, all_of, outcome
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Forbidden, LastOwner, Refusal
from tidings.model.roles import Role, owners

ROUNDS = 20


def assert_always_owned(log: list[Entry]) -> ChatState:
    """Fold the log run by run (a run is one transaction); returns the state at its end."""
    state = ChatState(chat_id=log[0].chat_id, tenant="acme", type="group", name=None, members={})
    for _, run in groupby(log, key=lambda entry: entry.mark):
        for entry in run:
            state.fold(entry)
        assert owners(state.members) >= 1 or not state.members, f"ownerless at {state.head}"
    return state


async def two_owners(deployment: Deployment) -> ChatId:
    chat = await deployment.group(ANN, BOB, CAT)
    await deployment.core.verbs.put_member(ANN, chat, BOB, "owner")
    return chat


@pytest.mark.attack("D08")
@pytest.mark.parametrize("has_two_writers", [False, True])
async def test_of_two_demotions_at_once_only_one_succeeds(
    deployment: Deployment, has_two_writers: bool
) -> None:
    one = deployment.writing
    other = deployment.another_writing() if has_two_writers else one
    for _ in range(ROUNDS):
        chat = await two_owners(deployment)
        await all_of([one.send(CAT, chat), other.send(CAT, chat)])
        results = await all_of(
            [
                outcome(one.put_member(ANN, chat, BOB, "member")),
                outcome(other.put_member(BOB, chat, ANN, "member")),
            ]
        )
        refusals = [result for result in results if isinstance(result, Refusal)]
        assert len(refusals) == 1
        assert isinstance(refusals[0], Forbidden), "the loser was no owner any more"
        state = assert_always_owned(await deployment.log(chat, CAT))
        assert owners(state.members) == 1


@pytest.mark.attack("D08")
async def test_demoting_oneself_and_the_other_at_once_keeps_an_owner(
    deployment: Deployment,
) -> None:
    for _ in range(ROUNDS):
        chat = await two_owners(deployment)
        demote = deployment.core.verbs.put_member
        results = await all_of(
            [
                outcome(demote(ANN, chat, BOB, "admin")),
                outcome(demote(ANN, chat, ANN, "admin")),
                outcome(demote(BOB, chat, BOB, "member")),
            ]
        )
        assert any(isinstance(result, LastOwner | Forbidden) for result in results)
        assert_always_owned(await deployment.log(chat, CAT))


@pytest.mark.attack("D08")
@pytest.mark.parametrize("has_two_writers", [False, True])
async def test_owners_who_leave_among_role_changes_are_followed_by_an_heir(
    deployment: Deployment, has_two_writers: bool
) -> None:
    one = deployment.writing
    other = deployment.another_writing() if has_two_writers else one
    for _ in range(ROUNDS):
        chat = await two_owners(deployment)
        await all_of([one.send(CAT, chat), other.send(CAT, chat)])
        work: list[Coroutine[Any, Any, object]] = [
            one.remove_member(ANN, chat, ANN),
            other.remove_member(BOB, chat, BOB),
            one.put_member(ANN, chat, CAT, "admin"),
            other.put_member(BOB, chat, ANN, "member"),
            other.put_member(ANN, chat, BOB, "member"),
        ]
        await all_of(outcome(one) for one in work)
        state = assert_always_owned(await deployment.log(chat, CAT))
        shown = await deployment.core.verbs.members(CAT, chat)
        members = {user: one.member for user, one in shown.items()}
        assert members == state.members
        assert owners(members) >= 1


async def test_the_heir_of_the_last_owner_is_the_longest_standing_admin(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    await deployment.people(DAN)
    put, remove = deployment.core.verbs.put_member, deployment.core.verbs.remove_member
    await put(ANN, chat, DAN, "admin")
    await put(ANN, chat, CAT, "admin")
    heirs: list[tuple[UserKey, Role]] = []
    for leaver in (ANN, CAT, DAN):
        await remove(leaver, chat, leaver)
        heirs += [
            (user, shown.member.role)
            for user, shown in (await deployment.core.verbs.members(BOB, chat)).items()
            if shown.member.role == "owner"
        ]
    assert heirs == [(CAT, "owner"), (DAN, "owner"), (BOB, "owner")]
    await remove(BOB, chat, BOB)
    with pytest.raises(ChatNotFound):
        await deployment.writing.send(BOB, chat)


@pytest.mark.attack("D08")
async def test_everyone_leaving_at_once_empties_the_group_in_some_order(
    deployment: Deployment,
) -> None:
    chat = await two_owners(deployment)
    events: list[Entry] = []

    async def leave(writing: Writing, user: UserKey) -> None:
        await writing.remove_member(user, chat, user)

    writers = [deployment.writing, deployment.another_writing(), deployment.another_writing()]
    async with asyncio.TaskGroup() as group:
        for writing, user in zip(writers, (ANN, BOB, CAT), strict=True):
            group.create_task(leave(writing, user))
    events += await deployment.core.store.log.tail(chat, 0)
    state = assert_always_owned(events)
    assert state.members == {}
