# SPDX-License-Identifier: Apache-2.0
"""The rules of search: words in twelve scripts, queries, and the places of what is found."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.scripts import SCRIPTS, texts, words
from tidings.actions.search import words as folding
from tidings.actions.search.queries import HIGHLIGHTS_MAX, SearchQuery, parse_query
from tidings.actions.search.segments import blocks_with, pack, ranges_of, unpack
from tidings.actions.search.words import index_terms, is_unspaced, traced_line, words_line
from tidings.model.refusals import Invalid


def parsed(text: str) -> SearchQuery | None:
    try:
        return parse_query(text)
    except Invalid:
        return None


@given(texts)
@example("e\u0301\u0323 ｶﾞ 각 ½ … ㈱ﷺx")
def test_a_traced_line_is_the_line(text: str) -> None:
    line, places = traced_line(text)
    assert line == words_line(text)
    assert len(places) == len(line)
    assert all(0 <= start <= end <= len(text) for start, end in places)
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("marks", "sorts_first", "sorts_last"),
    [("\u0301" * 90 + "\u0316" * 90, "\u0316", "\u0301"), ("\u0f73" * 180, "\u0f71", "\u0f72")],
)
def test_only_so_many_marks_of_a_letter_are_sorted(
    marks: str, sorts_first: str, sorts_last: str
) -> None:
    line, _ = traced_line(f"\u0f40{marks} end")
    assert line == words_line(f"\u0f40{marks} end")
    assert line.rindex(sorts_first) > line.index(sorts_last)


@given(texts)
def test_forms_of_a_text_have_the_same_words(text: str) -> None:
    line = words_line(text)
    for form in ("NFC", "NFD", "NFKC"):
        assert words_line(unicodedata.normalize(form, text)) == line
    assert words_line(line) == line


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_of_each_script_are_found(script: str) -> None:
    for word in SCRIPTS[script]:
        for text in (word, f"a {word}, b", f"«{word}»"):
            query = parse_query(word)
            assert query.matches(text), (word, text)
            assert query.highlights(text), (word, text)
            quoted = parse_query(f'"{word}"')
            assert quoted.matches(text), (word, text)


@given(texts, st.data())
def test_any_word_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    line = words_line(text)
    if line == " ":
        return
    word = data.draw(st.sampled_from(line.split()))
    query = parse_query(word)
    assert query.matches(text)
    assert query.highlights(text)
    if is_unspaced(word):
        start = data.draw(st.integers(0, len(word) - 1))
        part = word[start : data.draw(st.integers(start + 1, len(word)))]
        assert part not in words_line(part) or parse_query(part).matches(text)


@given(texts, st.one_of(texts, words))
def test_an_index_lists_what_a_query_finds(text: str, asked: str) -> None:
    query = parsed(asked)
    if query is None or not query.matches(text):
        return
    terms = index_terms(words_line(text))
    for term in query.terms:
        assert term.exact <= terms
        assert any(each.startswith(term.prefix) for each in terms)


@given(st.lists(texts, max_size=8), st.one_of(texts, words))
def test_a_segment_proposes_every_block_with_a_match(said: list[str], asked: str) -> None:
    query = parsed(asked)
    if query is None:
        return
    postings: dict[str, int] = {}
    for number, text in enumerate(said):
        for term in index_terms(words_line(text)):
            postings[term] = postings.get(term, 0) | 1 << number
    packed = pack(postings)
    assert unpack(packed) == postings
    matching = sum(1 << number for number, text in enumerate(said) if query.matches(text))
    assert blocks_with(packed, query) & matching == matching


def test_blocks_are_those_with_all_words() -> None:
    packed = pack({"walnut": 0b0011, "walnuts": 0b0100, "pecan": 0b1110})
    for asked, blocks in {
        "walnut": 0b0111,
        '"walnut"': 0b0011,
        "pecan walnut": 0b0110,
        '"pecan walnut"': 0b0010,
        "pecans": 0,
        "walnut almond": 0,
    }.items():
        assert blocks_with(packed, parse_query(asked)) == blocks, asked
    assert list(ranges_of(1, 0b11)) == [(1_089, 1_152), (1_025, 1_088)]


def places(asked: str, text: str) -> list[str]:
    query = parse_query(asked)
    return [text[start:end] for start, end in query.highlights(text)] if query.matches(text) else []


def test_queries_find_what_they_say() -> None:
    text = "Meet at Straße 5, the OLD harbour; then harbours"
    assert places("harbour", text) == ["harbour", "harbour"]
    assert places("harbour old", text) == ["OLD", "harbour"]
    assert places("old harbou", text) == ["OLD", "harbou", "harbou"]
    assert places("harbou old", text) == []
    assert places("STRASSE", text) == ["Straße"]
    assert places('"old harbour"', text) == ["OLD harbour"]
    assert places('"harbour old"', text) == []
    assert places('"old harbou"', text) == []
    assert places('"old harbour', text) == ["OLD harbour"]
    assert places('5 "the old" me', text) == ["Me", "5", "the OLD"]
    assert places("m", text) == []
    assert places("5", text) == ["5"]
    assert places("京 東京都", "東京都で京") == ["東京都", "京"]
    assert places('"iPhone 手机"', "我的iPhone手机壳") == ["iPhone手机"]
    assert places("é", "cafe\u0301 e\u0301!") == ["e\u0301"]


def test_highlights_are_bounded() -> None:
    assert len(parse_query("a").highlights("a b " * 1_000)) == HIGHLIGHTS_MAX


@pytest.mark.parametrize("text", ["", "  ", "!?", '""', "x" * 201, "a " * 17])
def test_queries_without_words_or_too_long_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_query(text)


def test_cached_characters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLDED_MAX", 100)
    monkeypatch.setattr(folding, "_FOLDING", cache := folding._Folding())
    text = "".join(map(chr, range(0x4E00, 0x5000)))
    assert words_line(text) == f" {text} "
    assert 0 < len(cache) <= 100
