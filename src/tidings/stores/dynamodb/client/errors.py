# SPDX-License-Identifier: Apache-2.0
"""Errors of requests, distinguished by what may have happened to the data."""

from typing import Any

from tidings.aws.transport import Rejected as Rejected
from tidings.aws.transport import RequestError as RequestError
from tidings.aws.transport import Throttled as Throttled
from tidings.aws.transport import Unanswered as Unanswered
from tidings.aws.transport import Unsent as Unsent

Item = dict[str, Any]
"""Plain values by attribute name: str, int, bytes, bool, None, list, dict, frozenset of int."""


class Conflicted(RequestError):
    """Another transaction has locked the item at the moment: nothing was written."""


class ConditionFailed(RequestError):
    """The condition of a write failed: this attempt wrote nothing."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("condition failed")
        self.item = item
        """The stored item; None if there is none."""
        self.is_repeat = False
        """True if an earlier attempt of the same call may have written the item."""


class Reason:
    """Why one write of a transaction failed; `code` is empty if this write was not the cause."""

    __slots__ = ("code", "item")

    def __init__(self, code: str, item: Item | None) -> None:
        self.code = code
        self.item = item

    @property
    def is_condition(self) -> bool:
        """True if the condition failed; `item` is the stored item."""
        return self.code == "ConditionalCheckFailed"

    @property
    def is_conflict(self) -> bool:
        """True if another transaction had locked the item."""
        return self.code == "TransactionConflict"


class Canceled(RequestError):
    """A transaction was not carried out: nothing was written."""

    def __init__(self, reasons: list[Reason]) -> None:
        super().__init__("transaction canceled: " + ", ".join(r.code or "-" for r in reasons))
        self.reasons = reasons
        """One reason for each write, in order."""
