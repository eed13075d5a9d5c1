# SPDX-License-Identifier: Apache-2.0
"""Every operation, asked by every kind of caller, answers what the matrix says."""

import json
from collections.abc import Iterator
from typing import Final

import pytest
from starlette.routing import Route

from tests.attacks import matrix
from tests.attacks.matrix import CALLERS, Answer
from tests.attacks.scenes import MISSING, Scene, body_for, make_scene
from tests.attacks.texts import Texts, reading_texts
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAUSE_MS: Final = 4_000
"""Between two operations: rate limits allow the next, and no token of a scene expires before the
last."""
SPECIAL: Final = {
    *("act_on_notification", "download_export", "follow_link", "get_token_issuer", "put_member"),
    *("read_own_file", "read_reported_file", "register_device", "remove_token_issuer"),
    *("search_messages", "show_unsubscribe", "unsubscribe"),
}
"""Operations for which something is there that their path does not name."""


@pytest.fixture(scope="module")
def texts() -> Iterator[Texts]:
    """What is sent to phones meanwhile."""
    with reading_texts() as opened:
        yield opened


@pytest.fixture(scope="module")
def scenes() -> dict[object, Scene]:
    """Scenes that no caller has changed, by what they have."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def many_wrong_credentials() -> Iterator[None]:
    """A fast machine asks more often with dead credentials than the limit allows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "UNKNOWN_WRONG_CREDENTIALS_BURST", 100_000)
        yield


def furniture_of(one: Operation) -> tuple[object, ...]:
    """What a scene has for an operation; scenes of operations that need the same are alike."""
    return frozenset(one.path_parameters), one.name if one.name in SPECIAL else ""


def page_paths(rest: Rest) -> set[str]:
    """The paths of whatever the application serves besides its operations."""
    paths = {route.path for route in rest.app.routes if isinstance(route, Route)}
    return paths - {form for one in OPERATIONS for form in (one.path, one.path.rstrip("/"))}


def told(status: int, content: bytes, expected: Answer) -> Answer:
    """An answer as the matrix writes it; that to a HEAD has no body, and so no code."""
    if status < 400:
        return Answer(status)
    return Answer(status, json.loads(content)["code"] if content else expected.code)


@pytest.mark.attack("H12")
async def test_every_operation_and_page_has_a_row_and_every_row_has_one(rest: Rest) -> None:
    assert {one.name for one in OPERATIONS} == matrix.OPERATIONS.keys() >= SPECIAL
    assert page_paths(rest) == matrix.PAGES.keys()
    for row in (*matrix.OPERATIONS.values(), *matrix.PAGES.values()):
        assert row.keys() == set(CALLERS)


@pytest.mark.attack("A07", "A17", "D01", "D02", "D03", "D05", "D10", "D11", "D20")
@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: one.name)
async def test_what_each_caller_is_told(
    rest: Rest, texts: Texts, scenes: dict[object, Scene], one: Operation
) -> None:
    """Refused callers all ask for the same things, which they leave as they are; whoever changes
    something has a world of its own.
    """
    # A scene that fails its test may have been changed, so that no other test gets it.
    scene = scenes.pop(furniture_of(one), None) or await make_scene(rest, texts, one)
    rest.clock.time += PAUSE_MS
    before = await _state(scene)
    wrong = {}
    for caller, expected in matrix.OPERATIONS[one.name].items():
        if expected.is_success and one.method != "GET":
            continue
        answer = await scene.call(caller, one, await body_for(scene, one))
        if told(answer[0], answer[2], expected) != expected:
            wrong[caller] = (answer[0], answer[2])
        elif expected.status == 404:
            first = one.path_parameters[0] if one.path_parameters else None
            if first is not None:
                missing = {first: MISSING[first]}
                nowhere = await scene.call(caller, one, await body_for(scene, one), **missing)
                assert answer == nowhere, f"{caller} can tell it from what is not there"
    assert wrong == {}
    assert await _state(scene) == before
    scenes[furniture_of(one)] = scene


@pytest.mark.parametrize(
    "one", [one for one in OPERATIONS if one.method != "GET"], ids=lambda one: one.name
)
async def test_what_those_who_may_are_told(rest: Rest, texts: Texts, one: Operation) -> None:
    row = {
        caller: expected
        for caller, expected in matrix.OPERATIONS[one.name].items()
        if expected.is_success
    }
    everybody = await make_scene(rest, texts, one) if one.key is None else None
    for caller, expected in row.items():
        scene = everybody or await make_scene(rest, texts, one, {caller})
        status, _, content = await scene.call(caller, one, await body_for(scene, one))
        assert told(status, content, expected) == expected, (caller, content)


async def test_pages_are_the_same_for_everyone(rest: Rest, texts: Texts) -> None:
    get_me = next(one for one in OPERATIONS if one.name == "get_me")
    scene = await make_scene(rest, texts, get_me)
    for template, row in matrix.PAGES.items():
        path = template.format(version="0", folder="src", name="index.js")
        answers = {caller: await scene.callers[caller].call("GET", path) for caller in CALLERS}
        assert {caller: Answer(answer.status_code) for caller, answer in answers.items()} == row
        assert len({answer.content for answer in answers.values()}) == 1


async def _state(scene: Scene) -> object:
    """What is to be seen of the scene by those who may see it."""
    owner: Actor = scene.callers["owner"]
    seen = [await owner.ok("GET", "/v1/me"), await owner.ok("GET", "/v1/chats")]
    if "chat_id" in scene.names:
        chat = f"/v1/chats/{scene.names['chat_id']}"
        seen += [await owner.ok("GET", f"{chat}/{part}") for part in ("entries", "members")]
    if "inbox" in scene.names:
        inbox = f"{scene.path}/inboxes/news"
        seen.append(await scene.backend.ok("GET", inbox))
        path = f"{inbox}/notifications/{scene.names['notification_id']}"
        seen.append(await scene.backend.ok("GET", path))
    return seen
