# SPDX-License-Identifier: Apache-2.0
"""Compares the ratios with what we want them to be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bench.peers.catalog import ARCHIVE, IN_REDIS, NO_ARCHIVE, TINODE
from bench.peers.outcome import GROUP, PAIRS
from bench.peers.report import Row


class Goal(msgspec.Struct, frozen=True):
    """Our processor time as a multiple of another server's, at most."""

    kind: str
    who: str
    ratio_max: float


GOALS: Final = (
    Goal(PAIRS, NO_ARCHIVE, 1.0),
    Goal(PAIRS, ARCHIVE, 1 / 12),
    Goal(PAIRS, IN_REDIS, 0.7),
    Goal(PAIRS, TINODE, 1 / 15),
    Goal(GROUP, IN_REDIS, 0.6),
    Goal(GROUP, ARCHIVE, 1 / 8),
)


def verdicts(tables: Mapping[tuple[str, str], Sequence[Row]]) -> Iterator[str]:
    """Say of each goal whether the middle round held it. Tables are by kind and name of shape."""
    for (kind, shape), found in tables.items():
        by_name = {row.who: row for row in found}
        for goal in GOALS:
            row = by_name.get(goal.who)
            if goal.kind != kind or row is None or row.ratio is None:
                continue
            kept = "held" if row.ratio <= goal.ratio_max else "MISSED"
            ratio = f"{row.ratio:.3f}, at most {goal.ratio_max:.3f}"
            yield f"{kind}, {shape}, {goal.who}: {ratio}: {kept}"
