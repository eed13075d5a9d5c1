# SPDX-License-Identifier: Apache-2.0
"""Complaints of the decoder, in our words: no name of its types, and a pointer to the field."""

from typing import Annotated, Literal

import msgspec
import pytest

from tidings.api.requests import Query, read_json, read_query
from tidings.model.refusals import Invalid
from tidings.wire.mistakes import explain

Few = Annotated[int, msgspec.Meta(ge=1, le=100)]


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    few: Few


class Users(msgspec.Struct, tag_field="kind", tag="users"):
    pass


class Everyone(msgspec.Struct, tag_field="kind", tag="everyone"):
    pass


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    few: Few = 1
    name: str | None = None
    is_on: bool = False
    share: Annotated[float, msgspec.Meta(le=0.5)] = 0.0
    kind: Literal["a", "b"] = "a"
    names: Annotated[list[str], msgspec.Meta(min_length=1, max_length=2)] = []
    code: Annotated[str, msgspec.Meta(min_length=6)] = "000000"
    by_name: dict[str, int] = {}
    inner: Inner | None = None
    audience: Users | Everyone | None = None


@pytest.mark.parametrize(
    ("body", "message", "pointer"),
    [
        ("[]", "the body must be an object", ""),
        ('{"few": 0}', "few must be at least 1", "/few"),
        ('{"few": 101}', "few must be at most 100", "/few"),
        ('{"few": 1.5}', "few must be an integer", "/few"),
        ('{"share": 0.75}', "share must be at most 0.5", "/share"),
        ('{"name": 3}', "name must be a string or null", "/name"),
        ('{"is_on": "yes"}', "is_on must be true or false", "/is_on"),
        ('{"kind": "c"}', "kind must be a or b", "/kind"),
        ('{"names": []}', "names must have at least 1 elements", "/names"),
        ('{"names": ["a", 3]}', "names[1] must be a string", "/names/1"),
        ('{"names": {}}', "names must be an array", "/names"),
        ('{"code": "12"}', "code must have at least 6 characters", "/code"),
        ('{"by_name": {"a": "b"}}', "by_name[...] must be an integer", "/by_name/..."),
        ('{"inner": {}}', "inner.few is missing", "/inner/few"),
        (
            '{"inner": {"few": 1, "a~/b": 1}}',
            "inner.a~/b is not a known field; known fields: few",
            "/inner/a~0~1b",
        ),
        (
            '{"color": 1}',
            "color is not a known field; known fields: few, name, is_on, share, kind, names, code,"
            " by_name, inner and audience",
            "/color",
        ),
        ('{"audience": {}}', "audience.kind is missing", "/audience/kind"),
        (
            '{"audience": {"kind": "x"}}',
            "audience.kind must be users or everyone",
            "/audience/kind",
        ),
    ],
)
def test_a_body_is_refused_in_our_words(body: str, message: str, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_json(body.encode(), Outer)
    assert (refused.value.detail, refused.value.pointer) == (message, pointer)


class Asked(Query, frozen=True):
    limit: Few = 50


@pytest.mark.parametrize(
    ("query", "message", "pointer"),
    [
        (b"limit=0", "limit must be at least 1", "/limit"),
        (b"limit=1000", "limit must be at most 100", "/limit"),
        (b"limit=all", "limit must be an integer", "/limit"),
        (b"color=red", "color is not a known field; known fields: limit", "/color"),
    ],
)
def test_a_query_is_refused_in_our_words(query: bytes, message: str, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_query(query, Asked)
    assert (refused.value.detail, refused.value.pointer) == (message, pointer)


def test_a_complaint_that_is_new_to_us_is_not_repeated() -> None:
    assert explain("Expected `frob` of sort 7 - at `$.few`") == ("few is not valid", "/few")
    assert explain("Expected `int | frob`, got `str` - at `$.few`") == ("few is not valid", "/few")
    assert explain("Something else", "the frame") == ("the frame is not valid", "")
