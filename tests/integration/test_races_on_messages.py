# SPDX-License-Identifier: Apache-2.0
"""Races on one message: reactions repeated at once, an edit against a redaction."""

from collections import Counter

import pytest

from tests.integration.cores import Deployment, all_of, outcome
from tests.support.canary import canary
from tests.support.users import ANN, BOB, CAT
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import MessageGone

ROUNDS = 20
THUMB, HEART = "👍", "❤️"


async def one(deployment: Deployment, chat: ChatId, sequence: int) -> Entry:
    page = await deployment.core.verbs.read.one(ANN, chat, sequence)
    return page.entries[0]


async def test_a_reaction_repeated_at_once_counts_once(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    message = await deployment.writing.send(ANN, chat)
    react = deployment.core.verbs.react
    await all_of(
        [
            *(react(BOB, chat, message.sequence, THUMB) for _ in range(10)),
            *(react(CAT, chat, message.sequence, THUMB) for _ in range(10)),
            *(react(CAT, chat, message.sequence, HEART) for _ in range(10)),
        ]
    )
    assert (await one(deployment, chat, message.sequence)).reactions == {THUMB: 2, HEART: 1}
    log = await deployment.log(chat, ANN)
    assert Counter((entry.sender, entry.emoji) for entry in log if entry.kind == "reacted") == {
        (BOB, THUMB): 1,
        (CAT, THUMB): 1,
        (CAT, HEART): 1,
    }


async def test_reactions_given_and_taken_back_at_once_add_up(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB, CAT)
    message = await deployment.writing.send(ANN, chat)
    react = deployment.core.verbs.react
    for _ in range(ROUNDS):
        await all_of(
            react(user, chat, message.sequence, emoji, away=away)
            for user in (BOB, CAT)
            for emoji in (THUMB, HEART)
            for away in (False, True, False)
        )
    log = await deployment.log(chat, ANN)
    given = Counter(entry.emoji for entry in log if entry.kind == "reacted")
    given.subtract(entry.emoji for entry in log if entry.kind == "unreacted")
    shown = (await one(deployment, chat, message.sequence)).reactions or {}
    assert shown == {emoji: count for emoji, count in given.items() if count}
    who = await deployment.core.verbs.reactions(ANN, chat, message.sequence)
    assert Counter(emoji for emoji, _, _ in who) == shown


@pytest.mark.attack("D23")
async def test_redaction_wins_over_an_edit_whichever_comes_first(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    verbs = deployment.core.verbs
    is_edit_first = []
    for number in range(ROUNDS):
        target = (await deployment.writing.send(BOB, chat)).sequence
        edit = outcome(verbs.edit(BOB, chat, target, canary("changed")))
        redact = outcome(verbs.redact(ANN, chat, target))
        results = await all_of([edit, redact] if number % 2 else [redact, edit])
        assert all(result is None or isinstance(result, MessageGone) for result in results)
        is_edit_first.append(results == [None, None])
        message = await one(deployment, chat, target)
        assert (message.gone, message.content, message.box) == ("redacted", None, None)
    log = await deployment.log(chat, ANN)
    redacted_at = {entry.target: entry.sequence for entry in log if entry.kind == "redacted"}
    for entry in log:
        if entry.kind == "edited":
            assert entry.sequence < redacted_at[entry.target]
            assert entry.shown is not None
            assert entry.shown.content is None
    assert len(redacted_at) == ROUNDS
    assert any(is_edit_first), "now and then the edit was in time"


@pytest.mark.attack("D23")
async def test_after_a_redaction_nothing_brings_content_or_reactions_back(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    verbs = deployment.core.verbs
    target = (await deployment.writing.send(BOB, chat, "first", cmid="first")).sequence
    await verbs.react(ANN, chat, target, THUMB)
    await verbs.redact(BOB, chat, target)
    with pytest.raises(MessageGone):
        await verbs.edit(BOB, chat, target, canary("again"))
    with pytest.raises(MessageGone):
        await verbs.react(ANN, chat, target, HEART)
    await verbs.redact(ANN, chat, target)
    replay = await deployment.writing.send_soon(BOB, chat, "first", cmid="first")
    assert replay.is_replay
    await deployment.core.vault.open([replay.entry], deployment.clock.now())
    assert (replay.entry.content, replay.entry.gone) == (None, "redacted")
    message = await one(deployment, chat, target)
    assert (message.content, message.reactions) == (None, None)
    assert await verbs.reactions(ANN, chat, target) == []
    row = await verbs.get(ANN, chat)
    assert row.last is not None
    assert row.last.content is None
    kinds = [entry.kind for entry in await deployment.log(chat, ANN)]
    assert kinds == ["created", "message", "reacted", "redacted"]
