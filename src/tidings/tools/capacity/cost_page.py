# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/reference/cost.md, from the functions that tests compare with a real store."""

import re
from collections.abc import Iterable
from typing import Final

from tidings.tools.capacity.charges import Prices, Units, total
from tidings.tools.capacity.identity_cases import IdentityCase, identity_cases
from tidings.tools.capacity.inbox_cases import InboxCase, inbox_cases
from tidings.tools.capacity.machines import Machine, fleet
from tidings.tools.capacity.planner import plan
from tidings.tools.capacity.report import as_text
from tidings.tools.capacity.traffic import Traffic
from tidings.tools.capacity.use_cases import UseCase, use_cases

_HEADS: Final = ("Use case", "Until the answer", "In total", "Price of a million")
_PART: Final = "<!-- generated: {name} -->\n.*?<!-- end -->"


def filled_in(page: str) -> str:
    """Return the page with each generated part written anew."""
    load, prices, machine = Traffic(), Prices(), Machine()
    planned = plan(load, prices)
    example = as_text(planned, fleet(planned, machine), machine)
    for name, content in (
        ("use cases", _use_cases(prices)),
        ("use cases of the inbox", _inbox_cases(prices)),
        ("use cases of identity", _identity_cases(prices)),
        ("capacity", f"```\n$ tidings capacity\n{example}```"),
    ):
        part = re.compile(_PART.format(name=re.escape(name)), re.DOTALL)
        assert len(part.findall(page)) == 1, f"the page must have one generated part: {name}"
        fresh = f"<!-- generated: {name} -->\n{content}\n<!-- end -->"
        page = part.sub(lambda _, fresh=fresh: fresh, page)  # type: ignore[misc]
    return page


def _use_cases(prices: Prices) -> str:
    cases = (_row(case, case.other_designs, prices) for case in use_cases())
    return _table((*_HEADS, "row per member", "single table", "counter and rows"), cases)


def _inbox_cases(prices: Prices) -> str:
    return _table(
        (*_HEADS, "row per notification"),
        (_row(case, (case.row_per_notification,), prices) for case in inbox_cases()),
    )


def _identity_cases(prices: Prices) -> str:
    return _table(_HEADS, (_row(case, (), prices) for case in identity_cases()))


def _row(
    case: UseCase | InboxCase | IdentityCase, others: tuple[Units | None, ...], prices: Prices
) -> tuple[str, ...]:
    in_all = total(case.ours.in_all)
    own = price(in_all, prices)
    return (
        case.name,
        units_in_words(total(case.ours.to_the_answer)),
        units_in_words(in_all),
        f"${own:,.2f}",
        *(_beside(other, own, prices) for other in others),
    )


def _beside(other: Units | None, own: float, prices: Prices) -> str:
    if other is None:
        return "-"
    times = float(f"{price(other, prices) / own:.2g}")
    return f"{units_in_words(other)} (x {times:,g})"


def price(units: Units, prices: Prices) -> float:
    """Return the on-demand price in dollars of a million times these units."""
    return units.write * prices.million_write_units + units.read * prices.million_read_units


def units_in_words(units: Units) -> str:
    """Return the units as text, such as `2 w, 1 r`; a kind without units is left out."""
    parts = ((units.write, "w"), (units.read, "r"))
    return ", ".join(f"{value:,.10g} {kind}" for value, kind in parts if value) or "0"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
