# SPDX-License-Identifier: Apache-2.0
"""The text of notifications at rest: nothing in the clear, and it opens only where it belongs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.canary import canary
from tests.unit.small_deployment import SmallDeployment, open_small_deployment
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model.notifications import Text

TEXT = Text(message={"title": canary("title"), "body": "é", "own": [1, None]}, sender="Shop")
PLACE = ("acme", "news", "01HZZZZZZZZZZZZZZZZZZZZZZZ")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path) as opened:
        yield opened


async def test_a_text_opens_as_it_was_sealed(world: SmallDeployment) -> None:
    texts = NotificationTexts(world.vault)
    sealed = await texts.seal(*PLACE, TEXT)
    assert canary("title").encode() not in sealed.box
    assert await texts.open(*PLACE, sealed.box, sealed.box_key) == TEXT
    assert await texts.open(*PLACE, None, 0) is None


@pytest.mark.parametrize(
    "place",
    [
        ("other", *PLACE[1:]),
        ("acme", "News", PLACE[2]),
        (*PLACE[:2], "01HZZZZZZZZZZZZZZZZZZZZZZY"),
        ("acme", "news\x00" + PLACE[2], ""),
    ],
)
async def test_it_opens_nowhere_else(world: SmallDeployment, place: tuple[str, str, str]) -> None:
    texts = NotificationTexts(world.vault)
    for known in (place, PLACE):  # each has a key of its own by then
        await texts.seal(*known, TEXT)
    sealed = await texts.seal(*PLACE, TEXT)
    assert await texts.open(*place, sealed.box, sealed.box_key) is None
    assert world.vault.tampered == 1


async def test_it_opens_after_a_restart_and_not_once_it_was_changed(tmp_path: Path) -> None:
    async with open_small_deployment(tmp_path) as world:
        sealed = await NotificationTexts(world.vault).seal(*PLACE, TEXT)
    async with open_small_deployment(tmp_path) as world:
        texts = NotificationTexts(world.vault)
        assert await texts.open(*PLACE, sealed.box, sealed.box_key) == TEXT
        changed = bytes([sealed.box[0] ^ 1]) + sealed.box[1:]
        assert await texts.open(*PLACE, changed, sealed.box_key) is None
        assert await texts.open(*PLACE, sealed.box, sealed.box_key + 7) is None
