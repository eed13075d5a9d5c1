# SPDX-License-Identifier: Apache-2.0
"""Writes the results as tables for the documentation."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from bench.machine import Machine
from bench.peers.catalog import Peer
from bench.peers.half import HEAD, Half, half_verdict
from bench.peers.outcome import PAIRS
from bench.peers.report import Row

Tables = Mapping[tuple[str, str], Sequence[Row]]
"""Rows by kind of chat and name of shape."""


def page(
    here: Machine,
    others: float,
    peers: Sequence[Peer],
    tables: Tables,
    found: Sequence[Half],
) -> str:
    """Return the tables with the date and the machine."""
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d}, {here.processor}, {here.cores} cores, Python {here.python},"
        f" a sync of 4 KiB in {here.sync_ms:.2f} ms;"
        f" others used up to {others:.2f} cores.",
        costs(peers, tables),
        kept(peers),
    ]
    if found:
        parts += [_table(HEAD, (one.row() for one in found)), half_verdict(found)]
    return "\n\n".join(parts) + "\n"


def costs(peers: Sequence[Peer], tables: Tables) -> str:
    """Return one table of what each server costs under each load."""
    units = {PAIRS: "µs a message"}
    heads = [f"{kind}, {shape}: {units.get(kind, 'µs a delivery')}" for kind, shape in tables]
    lines = []
    for peer in peers:
        cells = [_cell(peer.who, found) for found in tables.values()]
        lines.append((peer.who, *cells))
    return _table(("", *heads), lines)


def kept(peers: Sequence[Peer]) -> str:
    """Return the table of what each server keeps."""
    head = ("", "an answer means", "archive", "encrypted", "receipts", "lacks beside Tidings")
    return _table(
        head,
        (
            (
                peer.who,
                peer.keeps.answer_means,
                peer.keeps.archive,
                peer.keeps.encrypted,
                peer.keeps.receipts,
                peer.keeps.lacks,
            )
            for peer in peers
        ),
    )


def _cell(who: str, found: Sequence[Row]) -> str:
    for row in found:
        if row.who == who:
            ratio = "" if row.ratio is None else f"; ours is {row.ratio:.2f} of it"
            return f"{row.cost_us:.1f} ({row.rate:,.0f}/s){ratio}"
    return "-"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
