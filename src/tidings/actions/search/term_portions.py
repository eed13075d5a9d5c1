# SPDX-License-Identifier: Apache-2.0
"""Portions of the sorted terms of a segment: how they are compressed, and how a term is found.

A search looks into one portion of each segment, thousands in a long chat, and nearly all of them do
not have its word. To find that out, no term is put together.
"""

import zlib
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final

SHARED_CHARS_MAX: Final = 255
LAST_CHAR: Final = "\U0010ffff"
"""The last character, which no term contains."""


def deflate(plain: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    """Return compressed bytes without a header and a checksum, because encryption has its own."""
    work = zlib.compressobj(zlib.Z_BEST_COMPRESSION, wbits=-zlib.MAX_WBITS, strategy=strategy)
    return work.compress(plain) + work.flush()


def inflate(packed: bytes) -> bytes:
    """Return what `deflate` compressed."""
    return zlib.decompress(packed, wbits=-zlib.MAX_WBITS)


def pack_terms(terms: list[str]) -> tuple[bytes, bytes]:
    """Return sorted terms, each without the beginning that it shares with the term before it.

    The lengths of these beginnings come first, and the rests of the terms second.
    """
    shared = bytearray()
    rests: list[str] = []
    for before, term in pairwise(["", *terms]):
        length = _shared(before, term)
        shared.append(length)
        rests.append(term[length:])
    lengths = deflate(bytes(shared), zlib.Z_HUFFMAN_ONLY)  # too short to repeat itself
    return lengths, deflate("\n".join(rests).encode())


def _shared(one: str, other: str) -> int:
    """Return the number of characters with which both texts begin."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right or place == SHARED_CHARS_MAX:
            return place
    return min(len(one), len(other))


class Portion:
    """Sorted terms, each without the beginning that it shares with the term before it."""

    def __init__(self, packed: tuple[bytes, bytes]) -> None:
        self._packed = packed
        self._lines = f"\n{inflate(packed[1]).decode()}\n"
        """The rests of the terms, each with a line feed before and after it."""

    @cached_property
    def _shared(self) -> bytes:
        return inflate(self._packed[0])

    @cached_property
    def _rests(self) -> list[str]:
        return self._lines[1:-1].split("\n")

    def terms(self) -> Iterator[str]:
        """Yield the terms in order."""
        term = ""
        for length, rest in zip(self._shared, self._rests, strict=True):
            term = term[:length] + rest
            yield term

    def find(self, text: str, *, is_prefix: bool) -> int | None:
        """Return the place of a term, or of the first term that begins with a text; None if there
        is none.

        The rest of such a term is an end of the text, so these ends are searched for. Most
        portions have none of them, and need no more than these few searches.
        """
        after = "" if is_prefix else "\n"
        for length in range(min(len(text), SHARED_CHARS_MAX + 1)):
            wanted = f"\n{text[length:]}{after}"
            found = self._lines.find(wanted)
            while found >= 0:
                place = self._lines.count("\n", 0, found)
                if self._shared[place] == length and self._begins(place, text[:length]):
                    return place
                found = self._lines.find(wanted, found + 1)
        return None

    def _begins(self, place: int, beginning: str) -> bool:
        """Return True if the term at a place shares this beginning with the terms before it."""
        left = len(beginning)
        while left:
            place -= 1
            length = self._shared[place]
            if length < left:
                if self._rests[place][: left - length] != beginning[length:left]:
                    return False
                left = length
        return True

    def end(self, start: int, text: str) -> int:
        """Return the place after the last term that begins with a text; the term at `start` does.

        If the text is very long, terms that only begin as it does may be among them.
        """
        length = min(len(text), SHARED_CHARS_MAX)
        while start + 1 < len(self._shared) and self._shared[start + 1] >= length:
            start += 1
        return start + 1
