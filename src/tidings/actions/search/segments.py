# SPDX-License-Identifier: Apache-2.0
"""Segments of the search index: which blocks of entries have which words.

A segment covers 1,024 entries in 16 blocks. For each author it has the sorted terms, and for each
term the blocks with messages that have it, as bits. The terms are compressed in portions, and apart
from the blocks, because most searches need only one portion to see that a term is missing. Most
terms are in a single block, so that its number is stored instead of its bits.
"""

import unicodedata
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import reduce
from itertools import chain
from operator import and_, or_
from typing import Final

import msgspec

from tidings.actions.search.queries import SearchQuery
from tidings.actions.search.term_portions import LAST_CHAR, Portion, deflate, inflate, pack_terms
from tidings.model.entries import Entry

FORMAT: Final = f"2/{unicodedata.unidata_version}"
"""Version of the format of segments, and of the rules for words, which depend on the version of
Unicode. Later versions sort after earlier ones."""
SEGMENT_ENTRIES: Final = 1_024
BLOCK_ENTRIES: Final = 64
BLOCKS: Final = SEGMENT_ENTRIES // BLOCK_ENTRIES
ALL_BLOCKS: Final = (1 << BLOCKS) - 1
STEP_ENTRIES: Final = 256
"""Entries that are indexed at once. The last segment is written again for each step."""
SEGMENT_BYTES_MAX: Final = 256 * 1_024
"""Size above which the words of a segment are not stored; its entries are then read instead."""
PORTION_TERMS: Final = 256
"""Terms that are compressed together, at most 256. A search for a term decompresses only one
portion."""
SEVERAL: Final = BLOCKS
"""Stored for a term that is in several blocks, in place of the number of its block."""
Postings = dict[str, int]
"""The blocks of each term, as bits."""


def mark_of(last: Entry) -> str:
    """Return the mark of an index that reaches up to an entry."""
    return f"{FORMAT} {last.mark}"


def is_newer(mark: str) -> bool:
    """Return True if an index with this mark has a format that this process does not know."""
    return mark.partition(" ")[0] > FORMAT


def segment_of(sequence: int) -> int:
    """Return the number of the segment that covers an entry."""
    return (sequence - 1) // SEGMENT_ENTRIES


def first_of(number: int) -> int:
    """Return the sequence of the first entry that a segment covers."""
    return number * SEGMENT_ENTRIES + 1


def block_of(sequence: int) -> int:
    """Return the bit of the block that has an entry, in its segment."""
    return 1 << ((sequence - 1) % SEGMENT_ENTRIES // BLOCK_ENTRIES)


def block_range(sequence: int) -> tuple[int, int]:
    """Return the first and the last sequence of the block that has an entry."""
    first = (sequence - 1) // BLOCK_ENTRIES * BLOCK_ENTRIES + 1
    return first, first + BLOCK_ENTRIES - 1


def ranges_of(number: int, blocks: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last sequence of each block in a set, newest first."""
    for place in reversed(range(BLOCKS)):
        if blocks >> place & 1:
            yield block_range(first_of(number) + place * BLOCK_ENTRIES)


def pack(postings: Postings) -> bytes:
    """Return postings as they are encrypted and stored."""
    terms = sorted(postings)
    portions = [terms[at : at + PORTION_TERMS] for at in range(0, len(terms), PORTION_TERMS)]
    bits = [postings[term] for term in terms]
    places = bytes(each.bit_length() - 1 if each.bit_count() == 1 else SEVERAL for each in bits)
    several = array("H", [each for each in bits if each.bit_count() > 1])
    return _encode(
        _SortedTerms(
            [portion[0] for portion in portions],
            [pack_terms(portion) for portion in portions],
            deflate(places, zlib.Z_HUFFMAN_ONLY),  # nothing in it repeats
            deflate(several.tobytes(), zlib.Z_HUFFMAN_ONLY),
        )
    )


def unpack(packed: bytes) -> Postings:
    """Return the postings from their stored form."""
    opened = _decode(packed)
    terms = [term for portion in opened.portions for term in Portion(portion).terms()]
    blocks = opened.blocks()
    return {term: blocks.of(place, place + 1) for place, term in enumerate(terms)}


def blocks_with(packed: bytes, query: SearchQuery) -> int:
    """Return the blocks in which a message of the author may match a query, as bits."""
    opened = _decode(packed)
    spans: list[tuple[int, int]] = []
    for term in query.terms:
        for text, is_prefix in term.conditions:
            span = opened.span(text, is_prefix=is_prefix)
            if span is None:
                return 0
            spans.append(span)
    blocks = opened.blocks()
    return reduce(and_, (blocks.of(first, last) for first, last in spans), ALL_BLOCKS)


class _Blocks(msgspec.Struct, frozen=True):
    """The blocks of sorted terms."""

    places: bytes
    """For each term the number of its only block, or `SEVERAL`."""
    several: "array[int]"
    """The bits of the terms that are in several blocks."""

    def of(self, first: int, last: int) -> int:
        """Return the blocks of a range of terms, as bits."""
        start = self.places.count(SEVERAL, 0, first)
        stop = start + self.places.count(SEVERAL, first, last)
        single = (1 << place for place in self.places[first:last] if place != SEVERAL)
        return reduce(or_, chain(single, self.several[start:stop]), 0)


class _SortedTerms(msgspec.Struct, array_like=True, gc=False):
    """Sorted terms in portions, and the blocks of all terms in the same order."""

    first_terms: list[str]
    portions: list[tuple[bytes, bytes]]
    places: bytes
    several: bytes

    def blocks(self) -> _Blocks:
        """Return the blocks of all terms."""
        several = array("H")
        several.frombytes(inflate(self.several))
        return _Blocks(inflate(self.places), several)

    def span(self, text: str, *, is_prefix: bool) -> tuple[int, int] | None:
        """Return the first index and the end of a range of terms: of one term, or of all terms with
        this beginning.

        Such terms are next to each other, but may be in several portions.
        """
        if not self.portions:
            return None
        first = max(0, bisect_right(self.first_terms, text) - 1)
        portion = Portion(self.portions[first])
        place = portion.find(text, is_prefix=is_prefix)
        if not is_prefix:
            return None if place is None else _at(first, place, place + 1)
        last = max(first, bisect_right(self.first_terms, text + LAST_CHAR) - 1)
        if last == first:
            return None if place is None else _at(first, place, portion.end(place, text))
        stop = Portion(self.portions[last]).end(0, text)
        return (
            first * PORTION_TERMS + (PORTION_TERMS if place is None else place),
            last * PORTION_TERMS + stop,
        )


def _at(portion: int, start: int, stop: int) -> tuple[int, int]:
    """Convert a range of terms in a portion to a range among all terms."""
    return portion * PORTION_TERMS + start, portion * PORTION_TERMS + stop


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_SortedTerms).decode
