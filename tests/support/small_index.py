# SPDX-License-Identifier: Apache-2.0
"""Makes segments and steps of the search index small, so that few messages fill them."""

import pytest

from tidings.actions.search import candidates, indexing, scanning, segments


def shrink_index(patch: pytest.MonkeyPatch, step: int) -> None:
    """Index chats in steps of this many entries, and four of them in a segment, as ever."""
    size = step * segments.SEGMENT_ENTRIES // segments.STEP_ENTRIES
    for module in (segments, indexing, scanning):
        patch.setattr(module, "STEP_ENTRIES", step)
    for module in (segments, candidates):
        patch.setattr(module, "SEGMENT_ENTRIES", size)
    patch.setattr(segments, "BLOCK_ENTRIES", size // segments.BLOCKS)
