# SPDX-License-Identifier: Apache-2.0
"""The buffers of downloads are used again, but never while somebody still reads them."""

from tidings.actions.attachments.buffers import KEPT_MAX, Buffers


def test_a_buffer_that_nobody_reads_is_used_again() -> None:
    buffers = Buffers(4)
    first = buffers.take(4)
    first[:3] = b"abc"
    del first
    assert bytes(buffers.take(3)) == b"abc"


def test_a_part_that_is_still_read_stays_as_it_is() -> None:
    buffers = Buffers(4)
    unsent = buffers.take(4)[1:3]
    unsent[:] = b"ab"
    others = [buffers.take(4) for _ in range(KEPT_MAX + 1)]
    for other in others:
        other[:] = b"----"
    assert bytes(unsent) == b"ab"
    assert all(len(other) == 4 for other in others)


def test_a_process_keeps_a_few_of_them() -> None:
    buffers = Buffers(4)
    taken = [buffers.take(4) for _ in range(KEPT_MAX + 1)]
    for number, view in enumerate(taken):
        view[:3] = bytes([number] * 3)
    taken.clear()
    again = [buffers.take(4) for _ in range(KEPT_MAX + 1)]
    assert [view[0] for view in again] == [*range(KEPT_MAX), 0]


def test_small_files_have_memory_of_their_own() -> None:
    buffers = Buffers(4)
    small = buffers.take(2)
    small[:] = b"ab"
    del small
    assert bytes(buffers.take(2)) == b"\0\0"
