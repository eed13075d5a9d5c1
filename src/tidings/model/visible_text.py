# SPDX-License-Identifier: Apache-2.0
"""Names of users and groups must not contain invisible characters.

With invisible characters, or characters that turn the direction of writing, a user could take a
name that looks like another's. Only the two joiners are allowed, where a script or an emoji needs
them.
"""

import unicodedata
from itertools import pairwise
from typing import Final

from tidings.model import limits

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, format characters, surrogates, and separators of lines and paragraphs."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and symbols without a visible shape."""
_SIGNS: Final = frozenset({"So", "Sm", "Cn"})
"""Categories of emoji; emoji newer than Python's tables are `Cn`, not assigned."""
_VIRAMA: Final = 9
"""Combining class of the signs that join letters in the scripts of India."""


def is_visible(text: str) -> bool:
    """Return whether a name has only visible characters, and is not blank or too long."""
    if not text.strip() or len(text) > limits.NAME_CHARS_MAX:
        return False
    marks = 0
    for before, char in pairwise(f"\0{text}"):
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > limits.NAME_MARKS_MAX or char in _BLANK:
            return False
        if category in _INVISIBLE and char not in (_ZWNJ, _ZWJ):
            return False
        if before in (_ZWNJ, _ZWJ) and char in (_ZWNJ, _ZWJ):
            return False
    return all(
        _joins(text[:place], char, text[place + 1 :])
        for place, char in enumerate(text)
        if char in (_ZWNJ, _ZWJ)
    )


def _joins(before: str, joiner: str, after: str) -> bool:
    """Return whether the joiner changes how its neighbours are drawn, and so is visible itself."""
    if not before or not after:
        return False
    if _VIRAMA in (unicodedata.combining(before[-1]), unicodedata.combining(after[0])):
        return True
    base = _base(before)
    if unicodedata.bidirectional(base) == "AL":  # Arabic letters, which are joined in writing
        return unicodedata.bidirectional(after[0]) == "AL"
    is_sign = unicodedata.category(base) in _SIGNS and unicodedata.category(after[0]) in _SIGNS
    return joiner == _ZWJ and is_sign


def _base(text: str) -> str:
    """Return the last character that is neither a mark nor a skin tone."""
    for char in reversed(text):
        if unicodedata.category(char) not in ("Mn", "Mc", "Me", "Sk"):
            return char
    return "\0"
