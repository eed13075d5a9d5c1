# SPDX-License-Identifier: Apache-2.0
"""Stores in little space when a user received and read the messages of a chat.

A receipt has two lists of times: one for received messages, and one for read messages. Each element
is a sequence and the time at which the receipt reached it. Only few elements are kept: the older
the elements, the greater their distance. The first element is the floor: for messages up to it, no
time is known any more.
"""

from collections.abc import Sequence
from typing import Final

from tidings.model import limits

MarkTimes = Sequence[tuple[int, int]]
"""Pairs of a sequence and a time in seconds, both ascending."""

READ_TIMES_MAX: Final = 8
"""Maximum number of times that are kept for read messages of a chat, besides the floor."""
DELIVERED_TIMES_MAX: Final = 4
"""Maximum number of times that are kept for received messages of a chat, besides the floor."""

_BITS: Final = 7
_MORE: Final = 1 << _BITS


def noted(times: MarkTimes, sequence: int, now: int, most: int) -> list[tuple[int, int]]:
    """Add to a list of times that the receipt moved to a sequence at `now`, in milliseconds.

    Returns the new list, with at most `most` elements besides the first, the floor.
    """
    return thinned(in_order([*times, (sequence, now // limits.SECOND_MS)]), most)


def in_order(times: MarkTimes) -> list[tuple[int, int]]:
    """Return the times by sequence, ascending.

    The clocks of two processes may differ a little. A later sequence then gets the later time.
    """
    ordered: list[tuple[int, int]] = []
    for sequence, second in sorted(times):
        earlier = ordered[-1][1] if ordered else 0
        if not ordered or sequence > ordered[-1][0]:
            ordered.append((sequence, max(second, earlier)))
    return ordered


def thinned(times: MarkTimes, most: int) -> list[tuple[int, int]]:
    """Drop elements of a list of times until at most `most` are left besides the floor.

    The floor is the first element; the last element is always kept. If an element is dropped, its
    messages get the time of the next kept element, which is later. The error of such a drop is the
    distance between the times before and after the dropped one, divided by the age of the later of
    these two. Ages are measured back from the last time. The element with the smallest error is
    dropped first. If even this error is greater than one, the floor is dropped instead, and the
    next element becomes the floor.
    """
    kept = list(times)
    while len(kept) > most + 1:
        last = kept[-1][1]
        errors = [
            ((kept[index + 1][1] - kept[index - 1][1]) / (last - kept[index + 1][1] + 1), index)
            for index in range(1, len(kept) - 1)
        ]
        error, index = min(errors)
        del kept[index if error <= 1 else 0]
    return kept


def time_of(times: MarkTimes, sequence: int) -> int | None:
    """Return the time, in milliseconds, at which the receipt reached a sequence; None if unknown.

    The time is never too early. It is too late if the exact time is no longer kept.
    """
    if not times or sequence <= times[0][0]:
        return None
    for reached, second in times:
        if reached >= sequence:
            return second * limits.SECOND_MS
    return None


def packed(times: MarkTimes) -> bytes:
    """Encode times as differences, each with seven bits per byte."""
    data = bytearray()
    before = (0, 0)
    for pair in times:
        for value, earlier in zip(pair, before, strict=True):
            _append(data, value - earlier)
        before = pair
    return bytes(data)


def unpacked(data: bytes) -> list[tuple[int, int]]:
    """Decode times that `packed` encoded."""
    times: list[tuple[int, int]] = []
    numbers = _numbers(data)
    sequence = second = 0
    for index in range(0, len(numbers) - 1, 2):
        sequence, second = sequence + numbers[index], second + numbers[index + 1]
        times.append((sequence, second))
    return times


def _append(data: bytearray, number: int) -> None:
    assert number >= 0, "times are ascending"
    while number >= _MORE:
        data.append(number % _MORE + _MORE)
        number >>= _BITS
    data.append(number)


def _numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number += byte % _MORE << shift
        shift += _BITS
        if byte < _MORE:
            numbers.append(number)
            number = shift = 0
    return numbers
