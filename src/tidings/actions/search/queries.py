# SPDX-License-Identifier: Apache-2.0
"""Queries: which words a message must have to be found, and where they are in it."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tidings.actions.search.words import is_unspaced, traced_line, words_line
from tidings.model.refusals import Invalid

QUERY_CHARS_MAX: Final = 200
QUERY_WORDS_MAX: Final = 16
HIGHLIGHTS_MAX: Final = 100
PREFIX_CHARS_MIN: Final = 2
_QUOTED: Final = re.compile(r'"([^"]*)(?:"|$)')


class Term(msgspec.Struct, frozen=True):
    """One condition of a query."""

    text: str
    """Part of the words line that a message must contain. A space at its start or end means that a
    word must begin or end there."""
    exact: frozenset[str]
    """Terms of the index under which each matching message is listed."""
    prefix: str = ""
    """Beginning of a term of the index under which each matching message is listed, too."""

    @property
    def conditions(self) -> list[tuple[str, bool]]:
        """Terms of the index, and whether each is only the beginning of a term."""
        exact = [(text, False) for text in self.exact]
        return [*exact, (self.prefix, True)] if self.prefix else exact


class SearchQuery(msgspec.Struct, frozen=True):
    """The conditions of a query; a message must meet all of them."""

    terms: tuple[Term, ...]

    def matches(self, text: str) -> bool:
        """Return True if a text meets all conditions."""
        line = words_line(text)
        return all(term.text in line for term in self.terms)

    def highlights(self, text: str) -> list[tuple[int, int]]:
        """Return the ranges of code points that the query found in a text, in order."""
        line, places = traced_line(text)
        found = sorted(place for term in self.terms for place in _places(term, line, places))
        merged: list[tuple[int, int]] = []
        for start, end in found:
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            elif len(merged) < HIGHLIGHTS_MAX:
                merged.append((start, end))
        return merged


def parse_query(text: str) -> SearchQuery:
    """Parse the text that a user searches for.

    Raises:
        Invalid: The text is too long, has too many words, or has none.
    """
    if len(text) > QUERY_CHARS_MAX:
        raise Invalid(f"q: must have at most {QUERY_CHARS_MAX} characters", "/q")
    terms: list[Term] = []
    is_phrase = False
    for words, is_phrase in _parts(text):
        terms += [_term(words)] if is_phrase else [_term([word]) for word in words]
    if not terms:
        raise Invalid("q: must contain a letter, a digit or an emoji", "/q")
    if len(terms) > QUERY_WORDS_MAX:
        raise Invalid(f"q: must have at most {QUERY_WORDS_MAX} words", "/q")
    if not is_phrase:
        terms[-1] = _begun(terms[-1])
    return SearchQuery(tuple(dict.fromkeys(terms)))


def _parts(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each part of a query, and whether the part is in quotation marks."""
    parts: list[tuple[str, bool]] = []
    end = 0
    for quoted in _QUOTED.finditer(text):
        parts += [(text[end : quoted.start()], False), (quoted[1], True)]
        end = quoted.end()
    parts.append((text[end:], False))
    for part, is_phrase in parts:
        if words := words_line(part).split():
            yield words, is_phrase


def _term(words: list[str]) -> Term:
    """Return the condition that these words follow each other."""
    before = "" if is_unspaced(words[0]) else " "
    after = "" if is_unspaced(words[-1]) else " "
    exact: set[str] = set()
    prefix = ""
    for word in words:
        if not is_unspaced(word):
            exact.add(word)
        elif len(word) == 1:
            prefix = word
        else:
            exact.update(word[at : at + 2] for at in range(len(word) - 1))
    return Term(before + " ".join(words) + after, frozenset(exact), prefix)


def _begun(term: Term) -> Term:
    """Return the condition for a last word that the user may not have typed to its end."""
    word = term.text.strip()
    if is_unspaced(word) or len(word) < PREFIX_CHARS_MIN:
        return term
    return Term(f" {word}", frozenset(), word)


def _places(term: Term, line: str, places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places of a term in a text, from the words line and the places of the line."""
    found = line.find(term.text)
    while found >= 0:
        first = found + (term.text[0] == " ")
        last = found + len(term.text) - (term.text[-1] == " ") - 1
        yield places[first][0], places[last][1]
        found = line.find(term.text, found + 1)
