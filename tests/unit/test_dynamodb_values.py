# SPDX-License-Identifier: Apache-2.0
"""Plain values survive the way to the store and back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.stores.dynamodb.client.writes import from_wire, item_from_wire, item_to_wire, to_wire

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.frozensets(st.integers(), min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), plain))
def test_an_item_comes_back_as_it_went(item: dict[str, Any]) -> None:
    sent = msgspec.json.encode(item_to_wire(item))
    assert item_from_wire(msgspec.json.decode(sent)) == item


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("text", {"S": "text"}),
        (7, {"N": "7"}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ({"a": 1}, {"M": {"a": {"N": "1"}}}),
        (frozenset({7}), {"NS": ["7"]}),
    ],
)
def test_values_look_as_the_api_writes_them(value: object, wire: object) -> None:
    assert to_wire(value) == wire
    assert from_wire(to_wire(value)) == value


@pytest.mark.parametrize("value", [1.5, {1, 2}, object()])
def test_what_has_no_exact_form_is_not_written(value: object) -> None:
    with pytest.raises(KeyError):
        to_wire(value)
