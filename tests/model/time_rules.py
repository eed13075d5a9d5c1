# SPDX-License-Identifier: Apache-2.0
"""Rules for what happens without anybody doing it: time passes, the sweeper runs, a restart."""

from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.model.ground import USERS, Ground
from tests.model.lines import WEEK_MS
from tidings.model.ids import UserKey, tenant_of
from tidings.model.limits import DAY_MS
from tidings.model.retention import RULE_AGE_MS_MAX

TENANT = tenant_of(USERS[0])


class TimeRules(Ground):
    """What happens to everyone at once."""

    @rule(ms=st.sampled_from([1, 400, 1_000, 60_000, WEEK_MS]))
    def pass_time(self, ms: int) -> None:
        self.move_clock(self.now + ms)

    @rule(early=st.sampled_from([0, 1]), is_swept=st.booleans())
    def pass_time_to_the_next_expiry(self, early: int, is_swept: bool) -> None:
        """To the very millisecond, or to the one before it."""
        coming = [
            line.expires_at - early
            for room in self.rooms.values()
            for line in room.log
            if line.expires_at is not None and line.expires_at - early > self.now
        ]
        if coming:
            self.move_clock(min(coming))
        if is_swept:
            self._sweep()

    @rule(days=st.sampled_from([None, 1, 3]))
    def keep_for(self, days: int | None) -> None:
        """The tenant says how long content is kept; five seconds later all messages follow it."""
        settings = self.product.deployment.core.store.inbox_settings
        chats = {} if days is None else {"keep_days": days}
        self.product.run(settings.put_settings(TENANT, {"chats": chats}))
        self.kept_ms = None if days is None else days * DAY_MS
        self.move_clock(self.now + RULE_AGE_MS_MAX)

    @rule(what=st.sampled_from(["sweep", "settle", "restart"]))
    def upkeep(self, what: Literal["sweep", "settle", "restart"]) -> None:
        match what:
            case "sweep":
                self._sweep()
            case "settle":
                self._settle()
            case "restart":
                self.product.restart()
                self.product.authenticate([UserKey(user) for user in self.tenancy.bans])
        self.touched.update(self.rooms)

    def _sweep(self) -> None:
        due = [
            line
            for room in self.rooms.values()
            for line in room.log
            if line.gone(self.now) == "expired" and line.content is not None
        ]
        swept = self.product.run(self.product.deployment.sweep())
        assert swept == (len(due) if self.product.is_swept else 0)
        for line in due if self.product.is_swept else ():
            line.content = None

    def _settle(self) -> None:
        """Once everything is written, read marks stand where own messages have taken them, and
        own messages have ended marks as unread."""

        async def is_settled() -> bool:
            for chat, room in self.rooms.items():
                # Somebody whom another member blocks may not see that member's receipt.
                reader = next(filter(room.sees_receipts, sorted(room.members)), None)
                if reader is None:
                    continue
                receipts = await self.product.receipts(UserKey(reader), chat)
                for user, member in room.members.items():
                    is_left = member.mark_must_end and receipts[user].is_marked_unread
                    if is_left or receipts[user].read < member.due:
                        return False
            return True

        self.product.run(self.product.settle(is_settled))
