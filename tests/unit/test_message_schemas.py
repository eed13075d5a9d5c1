# SPDX-License-Identifier: Apache-2.0
"""Schemas of messages: what is taken, how much work it can make, and who does it."""

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from tidings.actions.inbox.message_schemas import (
    KEYWORDS_REFUSED,
    MessageSchemas,
    check_schema,
    checks_per_value,
)
from tidings.model import limits
from tidings.model.notifications import Json
from tidings.model.refusals import InboxBusy, Invalid
from tidings.ports.inboxes import CheckerBusy, TookTooLong
from tidings.schema_checker import ProcessChecker


@dataclass
class FakeChecker:
    """Answers what it is told to, and remembers what it was asked."""

    answer: bool | Exception = True
    asked: list[object] = field(default_factory=list)

    async def is_valid(self, schema: Json, value: object) -> bool:
        self.asked.append(value)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class NoChecker:
    """Nothing here may need one."""

    async def is_valid(self, schema: Json, value: object) -> bool:
        raise AssertionError("this is cheap to check")


SCHEMAS = MessageSchemas(NoChecker())


def nested(depth: int, keyword: str = "anyOf") -> Json:
    """Alternatives of lists of alternatives: the innermost values are checked 2**depth times."""
    schema: Json = {"type": "integer"}
    for _ in range(depth):
        schema = {keyword: [{"type": "array", "items": schema}, {"items": schema}]}
    return {"properties": {"own": schema}}


def deep(depth: int, *values: object) -> Json:
    """A message that such a schema has much to do with."""
    own: object = list(values)
    for _ in range(depth - 1):
        own = [own]
    return {"own": own}


# What is taken.


@pytest.mark.parametrize("keyword", sorted(KEYWORDS_REFUSED))
def test_a_schema_may_not_do_what_can_take_long(keyword: str) -> None:
    schemas: list[Json] = [{keyword: True}, {"allOf": [{"properties": {"a": {keyword: {}}}}]}]
    for schema in schemas:
        with pytest.raises(Invalid):
            check_schema(schema)


@pytest.mark.attack("E10")
@pytest.mark.parametrize("pattern", ["(a+)+\\1", "(?=a)", "(?<!a)", "(\\w{1000}){1000}", "("])
async def test_patterns_take_time_in_proportion(pattern: str) -> None:
    with pytest.raises(Invalid):
        check_schema({"properties": {"a": {"pattern": pattern}}})
    check_schema({"properties": {"a": {"pattern": "^(a+)+$"}}})
    with pytest.raises(Invalid):
        await SCHEMAS.check({"a": "a" * 3_000 + "b"}, {"properties": {"a": {"pattern": "^(a+)+$"}}})


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "both"])
def test_a_schema_has_few_patterns(keyword: str) -> None:
    most = limits.MESSAGE_SCHEMA_PATTERNS_MAX

    def schema(count: int) -> Json:
        by_name = {"pattern": 0, "patternProperties": count, "both": count // 2}[keyword]
        return {
            "patternProperties": {f"^a{number}": {} for number in range(by_name)},
            "properties": {"pattern": {"type": "string"}},
            "allOf": [{}, *({"items": {"pattern": f"b{one}"}} for one in range(count - by_name))],
        }

    check_schema(schema(most))
    with pytest.raises(Invalid) as raised:
        check_schema(schema(most + 1))
    assert raised.value.pointer == "/message_schema"
    assert "patterns" in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [(r"^\d{4}-\d{2}-\d{2}$", True), (r"^\w+$", True), (r"^\p{L}+$", True),
     (r"^[^@\s]+@[a-z.-]+$", True), ("[a-z]*a[a-z]{50}b", True), ("[a-z]*a[a-z]{5000}b", False)],
)  # fmt: skip
def test_a_pattern_is_small(pattern: str, is_taken: bool) -> None:
    schemas: list[Json] = [{"pattern": pattern}, {"patternProperties": {pattern: {}}}]
    for schema in schemas:
        if is_taken:
            check_schema(schema)
            continue
        with pytest.raises(Invalid) as raised:
            check_schema(schema)
        assert raised.value.pointer == "/message_schema"


async def test_without_a_schema_there_are_no_own_fields() -> None:
    await SCHEMAS.check({"title": "x", "body": "y", "cta_uri": "z"}, None)
    with pytest.raises(Invalid) as raised:
        await SCHEMAS.check({"title": "x", "body": "y", "own": 1}, None)
    assert raised.value.pointer == "/message/own"
    await SCHEMAS.check({"title": "x", "own": 1}, {"properties": {"own": {"type": "integer"}}})


# How much work it can make.


@pytest.mark.parametrize(
    ("schema", "checks"),
    [
        (True, 1),
        ({}, 0),
        ({"type": "object", "title": "no check", "properties": {}}, 2),
        ({"properties": {"a": {"type": "string"}, "b": {"minimum": 1, "maximum": 2}}}, 2),
        ({"items": {"items": {"items": {"type": "string"}}}}, 1),
        ({"anyOf": [{"type": "string"}] * 3}, 4),
        ({"items": {"allOf": [{"items": {"oneOf": [{"minimum": 1}] * 3}}] * 5}}, 21),
        ({"contains": {"type": "string"}, "items": {"type": "string"}}, 2),
        ({"not": {"not": {"not": {"type": "string"}}}}, 4),
        ({"if": {"minimum": 1}, "then": {"maximum": 2}, "else": {"maximum": 3}}, 6),
        ({"dependentSchemas": {"a": {"required": ["b"]}, "c": {"required": ["d"]}}}, 5),
        ({"additionalProperties": {"minimum": 1, "maximum": 2}, "properties": {"a": True}}, 2),
        ({"patternProperties": {"a": {"minimum": 1}, "b": {"minimum": 1}}}, 10),
        ({"propertyNames": {"maxLength": 3, "minLength": 1}}, 2),
        ({"enum": [f"{number}" for number in range(300)]}, 1),
        ({"enum": [*range(40)]}, 11),
        ({"enum": [[1], {"a": 2}]}, 49),
        ({"const": {"a": [1, 2]}}, 49),
        ({"multipleOf": 0.01}, 50),
        ({"multipleOf": 1e-300}, 2_000),
        ({"$defs": {"a": {"anyOf": [{}] * 50}}, "type": "object"}, 1),
    ],
)
def test_the_checks_that_one_value_may_be_put_to(schema: object, checks: int) -> None:
    assert checks_per_value(schema) == checks


@pytest.mark.attack("S09", "E10")
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_alternatives_that_multiply_are_refused(keyword: str) -> None:
    check_schema(nested(4, keyword))
    schema = nested(6, keyword)
    assert len(msgspec.json.encode(schema)) < limits.MESSAGE_SCHEMA_BYTES_MAX
    with pytest.raises(Invalid, match="at most 100 checks for one value") as raised:
        check_schema(schema)
    assert raised.value.pointer == "/message_schema"


@pytest.mark.attack("S09", "E10")
@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"allOf": [{"multipleOf": 0.01}] * 3}},
        {"items": {"multipleOf": 1e300}},
        {"items": {"enum": [[number] for number in range(50)]}},
        {"allOf": [{"contains": {"type": "null"}}] * 110},
        {"items": {"dependentRequired": {f"a{number}": ["b"] for number in range(200)}}},
    ],
)
def test_so_are_other_ways_to_make_work(schema: Json) -> None:
    with pytest.raises(Invalid, match="checks for one value"):
        check_schema({"properties": {"own": schema}})


def test_what_people_write_is_taken() -> None:
    address = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 100}}}
    price = {"type": "number", "minimum": 0, "multipleOf": 0.01}
    line = {
        "type": "object",
        "required": ["article", "price"],
        "additionalProperties": False,
        "properties": {
            "article": {"type": "string", "pattern": "^[A-Z0-9-]+$"},
            "price": price,
            "kind": {"enum": ["book", "food", None]},
            "ship_to": {"oneOf": [address, {"type": "null"}]},
        },
    }
    check_schema({"type": "object", "properties": {"lines": {"type": "array", "items": line}}})


# Who does it, and what is said.


@pytest.mark.attack("S09", "F10", "D21")
async def test_no_complaint_lists_what_is_wrong_with_every_value_of_every_alternative() -> None:
    schema, message = nested(4), deep(4, *[1] * 1_000, "x")
    with pytest.raises(Invalid, match="does not match the inbox's message_schema") as raised:
        await SCHEMAS.check(message, schema)
    assert raised.value.pointer == "/message"
    await SCHEMAS.check(deep(4, *[1] * 1_000), schema)


async def test_a_complaint_says_what_is_wrong_where_that_is_little_work() -> None:
    plain: Json = {"properties": {"own": {"items": {"maximum": 3}}}}
    with pytest.raises(Invalid, match="maximum of 3") as raised:
        await SCHEMAS.check(deep(1, *[1] * 1_500, 4), plain)
    assert raised.value.pointer == "/message/own/1500"
    either: Json = {"properties": {"own": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    with pytest.raises(Invalid, match="anyOf") as raised:
        await SCHEMAS.check({"own": 1}, either)
    assert raised.value.pointer == "/message/own"


@pytest.mark.attack("S09", "F10")
async def test_a_schema_from_before_there_was_a_bound_is_checked_elsewhere() -> None:
    checker = FakeChecker()
    schemas = MessageSchemas(checker)
    await schemas.check(deep(7, 1), nested(7))
    assert checker.asked == [deep(7, 1)]
    for answer, refusal, said in (
        (False, Invalid, "does not match the inbox's message_schema"),
        (TookTooLong(), Invalid, "takes too long to check"),
        (CheckerBusy(), InboxBusy, "busy"),
    ):
        checker.answer = answer
        with pytest.raises(refusal, match=said):
            await schemas.check(deep(7, 1), nested(7))


@pytest.mark.attack("S09")
@pytest.mark.parametrize("number", [1e300, -1e16, 1e-300, 10**18])
async def test_so_are_numbers_that_are_dear_to_divide(number: float) -> None:
    schema: Json = {"properties": {"own": {"items": {"multipleOf": 0.01}}}}
    check_schema(schema)
    await SCHEMAS.check(deep(1, 0, 1, 0.01, 1e15, "x", True), schema)
    checker = FakeChecker()
    await MessageSchemas(checker).check(deep(1, 1, number), schema)
    assert len(checker.asked) == 1


@pytest.mark.slow
@pytest.mark.attack("S09", "F10")
async def test_a_check_in_a_process_of_its_own_ends_when_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SCHEMA_CHECK_WAIT_SECONDS_MAX", 240)  # on a busy machine
    checker = ProcessChecker()
    assert await checker.is_valid(nested(5), deep(5, 1))
    assert not await checker.is_valid(nested(5), deep(5, "x"))
    with pytest.raises(CheckerBusy):
        await checker.is_valid({"type": "none that there is"}, 1)
    # A few seconds of divisions, whatever the machine: it is ended by the time it has used.
    endless: Json = {"items": {"allOf": [{"multipleOf": 1e-300}] * 400}}
    with pytest.raises(TookTooLong):
        await checker.is_valid(endless, [1e300] * 5_000)


async def test_few_checks_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCHEMA_CHECKS_WAITING_MAX", 2)
    checker = ProcessChecker()
    outcomes = await asyncio.gather(
        *(checker.is_valid({}, 1) for _ in range(4)), return_exceptions=True
    )
    assert [type(one) for one in outcomes] == [bool, bool, CheckerBusy, CheckerBusy]
