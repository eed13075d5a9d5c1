# SPDX-License-Identifier: Apache-2.0
"""The words of a text, as search compares them.

A text is first folded: normalised (NFKC), case-folded, and without invisible characters. A word is
then a run of letters, marks and digits. In scripts without spaces between words, such as Chinese,
Japanese, Korean and Thai, and for emoji, nobody can see where a word ends. Each run of such
characters counts as one word, and a search finds any part of it.

The words line of a text has all its words in order, with a space before and after each of them. A
word is in the text if the line contains it between two spaces; a part of a run, if the line
contains it anywhere. Two words follow each other in the text if they do so in the line.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

_UNSPACED_RANGES: Final = (
    "\u0e00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # Hangul; NFKC removes the compatibility forms
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3040-\u31ff"  # radicals, kana, bopomofo
    "\u3400-\u4dbf\u4e00-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"  # Han, Yi
    "\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"  # arrows, emoji
)
_UNSPACED: Final = re.compile(f"[{_UNSPACED_RANGES}]+")
_WORD_CATEGORIES: Final = frozenset("LMN")
_SKIPPED: Final = frozenset({*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x034F})
"""Variation selectors and the grapheme joiner. They are marks, but change no letter."""
_JOINER: Final = "\u034f"
"""The grapheme joiner, over which normalising moves no mark."""
_MARKS_RANGE: Final = range(0x300, 0x20000)
"""All marks that normalising sorts are in this range."""
_MARKS_SORTED_MAX: Final = 32

FOLDED_MAX: Final = 20_000
"""Number of characters whose values are cached, of the 1.1 million that there are."""


class _Folding(dict[int, int | str | None]):
    """Maps each character of a folded text to itself, to a space, or to nothing.

    The value of a character is computed when the character first appears. Values that were computed
    are forgotten when there are `FOLDED_MAX`, which texts in a few languages never reach.
    """

    def __missing__(self, code: int) -> int | str | None:
        char = chr(code)
        category = unicodedata.category(char)
        value: int | str | None = " "
        if code in _SKIPPED or category == "Cf":
            value = None
        elif category[0] in _WORD_CATEGORIES or category == "Pc" or _UNSPACED.match(char):
            value = code
        if len(self) >= FOLDED_MAX:
            self.clear()
        self[code] = value
        return value


_FOLDING: Final = _Folding()


def is_unspaced(word: str) -> bool:
    """Return True if the word is a run of characters of scripts without spaces."""
    return _UNSPACED.match(word) is not None


def words_line(text: str) -> str:
    """Return the words line of a text; it is a single space if the text has no words."""
    words = _spaced(_folded(text).translate(_FOLDING)).split()
    return f" {' '.join(words)} " if words else " "


def index_terms(line: str) -> set[str]:
    """Return the terms under which an index lists a text with this words line.

    A run without spaces is listed by its overlapping pairs of characters, and by its last
    character, so that each of its characters begins one of the terms.
    """
    terms: set[str] = set()
    for word in line.split():
        if is_unspaced(word):
            terms.update(word[at : at + 2] for at in range(len(word)))
        else:
            terms.add(word)
    return terms


def traced_line(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the words line of a text, and for each of its characters where it is in the text.

    A place is a range of code points. Several characters of the line can have the same place, for
    example those of a ligature.
    """
    chars: list[str] = [" "]
    places: list[tuple[int, int]] = [(0, 0)]
    for start, end in _clusters(text):
        for char in _folded(text[start:end]).translate(_FOLDING):
            before = chars[-1]
            if " " not in (before, char) and is_unspaced(before) != is_unspaced(char):
                chars.append(" ")
                places.append((start, start))
            if char != " " or before != " ":
                chars.append(char)
                places.append((start, end))
    if chars[-1] != " ":
        chars.append(" ")
        places.append((len(text), len(text)))
    return "".join(chars), places


@cache
def _long_runs_of_marks() -> re.Pattern[str]:
    """Return a pattern for marks that follow each other, in any decomposed form."""
    forms = ((char, unicodedata.normalize("NFKD", char)) for char in map(chr, _MARKS_RANGE))
    marks = "".join(char for char, form in forms if unicodedata.combining(form[0]))
    return re.compile(f"[{marks}]{{{_MARKS_SORTED_MAX}}}")


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Normalising sorts the marks of a letter, in a time that grows with the square of their number.
    if len(text) >= _MARKS_SORTED_MAX:
        text = _long_runs_of_marks().sub(f"\\g<0>{_JOINER}", text)
    # Case folding can separate a letter from its accents, which the second pass joins again.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def _spaced(text: str) -> str:
    """Return a text with spaces around each run without spaces."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are normalised independently of each other."""
    start = 0
    for at in range(1, len(text)):
        if _joins(text[start:at], text[at]):
            continue
        yield start, at
        start = at
    if text:
        yield start, len(text)


def _joins(before: str, char: str) -> bool:
    """Return True if normalising changes a character together with what precedes it."""
    if char.isascii():
        return False
    if unicodedata.combining(char):
        return True
    apart = _folded(before) + _folded(char)
    return _folded(before + char) != apart
