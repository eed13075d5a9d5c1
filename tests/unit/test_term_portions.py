# SPDX-License-Identifier: Apache-2.0
"""Terms of the search index are found among compressed ones as in a plain list."""

import random
from collections.abc import Iterator

import pytest

from tidings.actions.search.queries import SearchQuery, Term
from tidings.actions.search.segments import PORTION_TERMS, blocks_with, pack, unpack
from tidings.actions.search.term_portions import SHARED_CHARS_MAX

CHANCE = random.Random(5)


def some_terms() -> dict[str, int]:
    """Many terms that begin alike, some of them longer than any shared beginning."""
    short = {"".join(CHANCE.choices("abc", k=CHANCE.randint(2, 9))) for _ in range(900)}
    long = {"b" * (SHARED_CHARS_MAX + size) + end for size in range(-2, 4) for end in "xyz"}
    return {term: 1 << CHANCE.randrange(16) | 1 << CHANCE.randrange(16) for term in short | long}


TERMS = some_terms()


def texts() -> Iterator[str]:
    """Terms, their beginnings, and what is nearly a term."""
    for term in sorted(TERMS):
        yield from (term, term[: CHANCE.randint(1, len(term))], term + "a", term[:-1] + "d")
    yield from "adz"


def found(packed: bytes, text: str, *, is_prefix: bool) -> int:
    exact = frozenset[str]() if is_prefix else frozenset({text})
    term = Term(text, exact, text if is_prefix else "")
    return blocks_with(packed, SearchQuery((term,)))


def test_every_term_and_every_beginning_is_found() -> None:
    assert len(TERMS) > 2 * PORTION_TERMS
    packed = pack(TERMS)
    assert unpack(packed) == TERMS
    for text in texts():
        begun = [blocks for term, blocks in TERMS.items() if term.startswith(text)]
        union = 0
        for blocks in begun:
            union |= blocks
        assert found(packed, text, is_prefix=False) == TERMS.get(text, 0), text
        proposed = found(packed, text, is_prefix=True)
        if len(text) <= SHARED_CHARS_MAX:
            assert proposed == union, text
        else:
            assert proposed & union == union, text


@pytest.mark.parametrize("is_prefix", [False, True])
def test_nothing_is_found_where_nothing_is(is_prefix: bool) -> None:
    assert found(pack({}), "a", is_prefix=is_prefix) == 0
