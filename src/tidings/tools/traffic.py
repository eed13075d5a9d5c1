# SPDX-License-Identifier: Apache-2.0
"""The load to plan for, and the rate of each use case in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidings.model import limits
from tidings.tools import chat_costs, identity_costs
from tidings.tools.chat_costs import Cost

DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Daily activity of users; every share is between 0 and 1."""

    dau: int = 10_000
    """Active users per day."""
    messages_per_day: float = 100.0
    """Messages that each user sends per day."""
    message_bytes: int = 200
    group_share: float = 0.3
    """Share of messages, and of chats, that are in groups."""
    group_size: int = 10
    online_share: float = 0.5
    """Share of readers who are connected when a message arrives. The others fetch it when they
    return."""
    chats: int = 50
    """Number of chats that each user is in."""
    opens_per_day: float = 10.0
    """How often each user returns per day. Each return costs a hello, a chat list and the missed
    entries."""
    reads_per_day: float = 20.0
    """Pages of history that each user reads per day."""
    expiring_share: float = 0.0
    expiring_days: float = 1.0
    reactions_share: float = 0.1
    """Reactions per message."""
    edits_share: float = 0.02
    joins_per_day: float = 0.01
    """Changes of membership that each user makes per day."""
    plan_days: int = 365
    """Days of messages that are stored at the time to plan for. Entries are never deleted."""
    retention_days: int = 0
    """Days after which the content of every message is removed; 0 keeps it."""
    peak: float = 10.0
    """Load at the busiest moment, as a multiple of the average."""
    connected_share: float = 0.2
    """Share of the day's users who are connected at the busiest moment."""

    @property
    def messages(self) -> float:
        """Messages per day."""
        return self.dau * self.messages_per_day

    @property
    def messages_per_second(self) -> float:
        """Messages per second, averaged over a day."""
        return self.messages / DAY_SECONDS

    @property
    def readers(self) -> float:
        """Average number of readers of a message, connected or not."""
        return (1 - self.group_share) + self.group_share * (self.group_size - 1)

    @property
    def chat_count(self) -> float:
        """Number of chats of all users together."""
        each = (1 - self.group_share) / 2 + self.group_share / self.group_size
        return self.dau * self.chats * each

    @property
    def fleeting_share(self) -> float:
        """Share of messages whose content expires."""
        return 1.0 if self.retention_days else self.expiring_share

    @property
    def fleeting_days(self) -> float:
        """Average number of days until content expires, over the messages whose content expires."""
        if not self.retention_days:
            return self.expiring_days
        own = min(self.expiring_days, self.retention_days)
        return self.expiring_share * own + (1 - self.expiring_share) * self.retention_days

    @property
    def missed(self) -> int:
        """Number of entries that a returning user has to fetch."""
        received = self.messages_per_day * self.readers
        away = received * (1 - self.online_share) / max(1.0, self.opens_per_day)
        return min(round(away), limits.CATCH_UP_CHAT_ENTRIES_MAX)


@dataclass(frozen=True, slots=True)
class Flow:
    """A use case, with its average rate per second and its cost."""

    name: str
    per_second: float
    cost: Cost


def flows(load: Traffic) -> Iterator[Flow]:
    """Yield every use case of a load with its rate."""
    rate = load.messages_per_second
    people = load.dau / DAY_SECONDS
    size = load.message_bytes
    yield from _sends(load, rate)
    yield Flow("react", rate * load.reactions_share, chat_costs.react(2, size))
    yield Flow("edit", rate * load.edits_share, chat_costs.edit(2, size))
    yield Flow("join", people * load.joins_per_day, chat_costs.change_members(joins=True))
    groups = round(load.chats * load.group_share)
    direct = load.chats - groups
    back = chat_costs.reconnect(direct, groups, load.chats, load.missed, size)
    if not load.missed:
        back = chat_costs.hello(direct, groups, load.chats, size)
    yield Flow("come back", people * load.opens_per_day, back)
    yield Flow("refresh", people * load.opens_per_day, identity_costs.refresh())
    yield Flow("first sight", people * load.opens_per_day, identity_costs.first_sight())
    yield Flow("mark read", people * load.opens_per_day, chat_costs.mark_read())
    listed = chat_costs.chat_list(direct, groups, size)
    yield Flow("chat list", people * load.opens_per_day, listed)
    yield Flow(
        "history", people * load.reads_per_day, chat_costs.history(2, limits.PAGE_DEFAULT, size)
    )


def _sends(load: Traffic, rate: float) -> Iterator[Flow]:
    for kind, members, share in (
        ("send, 1:1", 2, 1 - load.group_share),
        ("send, group", load.group_size, load.group_share),
    ):
        readers = (members - 1) * load.online_share
        for expires, part in ((False, 1 - load.fleeting_share), (True, load.fleeting_share)):
            cost = chat_costs.send(members, load.message_bytes, readers, expires=expires)
            name = f"{kind}, expires" if expires else kind
            yield Flow(name, rate * share * part, cost)
