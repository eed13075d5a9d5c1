# SPDX-License-Identifier: Apache-2.0
"""Handlers get their arguments by name, and a name that means nothing is found at the start."""

import pytest
from starlette.requests import Request

from tidings.api.endpoints import Arguments
from tidings.api.operations import Answer, operation
from tidings.api.requests import Query
from tidings.model.refusals import ChatNotFound, Invalid


class PartQuery(Query, frozen=True):
    """How much."""

    limit: int = 10


@operation("GET", "/v1/chats/{chat_id}/things/{thing}", tag="Things", summary="List things")
async def list_things(
    chat: str, thing: str, asked: PartQuery, address: str | None, things: object
) -> Answer[None]:
    """All of them."""
    return Answer(None)


@operation("GET", "/v1/things", tag="Things", summary="Get a thing")
async def get_thing(stranger: str) -> None:
    """One of them."""


CHAT = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
THINGS = object()


def request(chat: str = CHAT, query: bytes = b"") -> Request:
    path = {"chat_id": chat, "thing": "t 1"}
    return Request({"type": "http", "path_params": path, "query_string": query})


def test_each_argument_comes_from_where_its_name_says() -> None:
    arguments = Arguments(list_things, {"things": THINGS, "unused": 1}, lambda _: "192.0.2.1")
    assert arguments.read(request(query=b"limit=5")) == {
        "chat": CHAT,
        "thing": "t 1",
        "asked": PartQuery(limit=5),
        "address": "192.0.2.1",
        "things": THINGS,
    }


def test_what_cannot_be_is_refused() -> None:
    arguments = Arguments(list_things, {"things": THINGS}, lambda _: None)
    with pytest.raises(ChatNotFound):
        arguments.read(request(chat="x"))
    with pytest.raises(Invalid):
        arguments.read(request(query=b"limit=x"))


def test_a_name_that_means_nothing_is_found_when_the_application_is_made() -> None:
    with pytest.raises(TypeError, match="get_thing: nothing is called stranger"):
        Arguments(get_thing, {"things": THINGS}, lambda _: None)
