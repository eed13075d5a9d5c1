# SPDX-License-Identifier: Apache-2.0
"""What can come of a request besides success, told apart by what may have happened to the data."""

from typing import Any

from tidings.aws.errors import Rejected as Rejected
from tidings.aws.errors import RequestError as RequestError
from tidings.aws.errors import Throttled as Throttled
from tidings.aws.errors import Unanswered as Unanswered
from tidings.aws.errors import Unsent as Unsent
from tidings.stores.errors import StoreRefused as StoreRefused

Item = dict[str, Any]
"""Attribute names to plain values: str, int, bytes, bool, None, list, dict, frozenset of int."""


class Conflicted(RequestError):
    """A transaction holds the item at this moment: nothing happened."""


class ConditionFailed(RequestError):
    """The condition of a write did not hold: nothing happened now."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("condition failed")
        self.item = item
        """What stands there; None if nothing does."""
        self.is_repeat = False
        """An earlier attempt of the call may have been carried out: perhaps the item is its."""


class Reason:
    """Why one write of a transaction could not be; `code` is empty if it was not at fault."""

    __slots__ = ("code", "item")

    def __init__(self, code: str, item: Item | None) -> None:
        self.code = code
        self.item = item

    @property
    def is_condition(self) -> bool:
        """Its condition did not hold; `item` is what stands there."""
        return self.code == "ConditionalCheckFailed"

    @property
    def is_conflict(self) -> bool:
        """Another transaction held the item at that moment."""
        return self.code == "TransactionConflict"


class Canceled(RequestError):
    """A transaction was not carried out: nothing happened."""

    def __init__(self, reasons: list[Reason]) -> None:
        super().__init__("transaction canceled: " + ", ".join(r.code or "-" for r in reasons))
        self.reasons = reasons
        """One for each write, in their order."""
