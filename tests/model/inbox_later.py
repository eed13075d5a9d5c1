# SPDX-License-Identifier: Apache-2.0
"""Rules for notifications that are posted for a later time."""

from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.inbox_reference import DAY_MS
from tests.model.inbox_tenant import (
    TENANT,
    InboxTenant,
    boxes,
    categories,
    everyone_there,
    groups,
    keys,
)
from tidings.model.notifications import NotificationAction, Posting, PostOptions
from tidings.model.refusals import RequestConflict
from tidings.ports.due import Due
from tidings.ports.tenant_jobs import NotYet

HOLDER: Final = "model"
delays = st.sampled_from([1, 500, 500, 5_000, DAY_MS])
"""After how many milliseconds a notification is to be delivered."""
lives = st.sampled_from([None, None, 1, 600])
"""For how many milliseconds it is to be seen then."""


class LaterRules(InboxTenant):
    """What the tenant posts for later."""

    @rule(
        inbox=boxes,
        users=st.none() | st.lists(everyone_there, min_size=1, max_size=3),
        category=categories,
        key=keys,
        group=groups,
        delay=delays,
        life=lives,
    )
    def post_for_later(
        self,
        inbox: str,
        users: list[str] | None,
        category: str | None,
        key: str | None,
        group: str | None,
        delay: int,
        life: int | None,
    ) -> None:
        box, title = self.boxes[inbox], f"t{next(self.titles)}"
        if key is not None:
            title, life = "same", None
        deliver_at = self.now + delay
        expires_at = None if life is None else deliver_at + life
        names = ("yes", "no") if category else ()
        options = PostOptions(
            actions=tuple(NotificationAction(id=name, label=name) for name in names),
            collapse_key=group,
            expires_at=expires_at,
            deliver_at=deliver_at,
        )
        message: dict[str, object] = {"title": title, "body": ""}
        posting = Posting(users=users, message=message, category=category, options=options)
        distinct = None if users is None else list(dict.fromkeys(users))
        request = (distinct, category, group, deliver_at)
        post = self.verbs.post(TENANT, inbox, posting, key)
        try:
            known = box.repeated(key, request, self.now)
        except RequestConflict:
            with pytest.raises(RequestConflict):
                self.product.run(post)
            return
        posted = self.product.run(post)
        assert posted.is_replay == (known is not None)
        assert posted.status == "scheduled"
        assert known in (None, posted.notification_id)
        if known is None:
            name = posted.notification_id
            more = {"group": group, "actions": names, "expires_at": expires_at}
            box.post_for_later(name, title, category, distinct, deliver_at, **more)
            if key is not None:
                box.keys[key] = (request, name, self.now + DAY_MS)
            self.happened["for later"] += 1

    @precondition(lambda self: any(box.later for box in self.boxes.values()))
    @rule(to_the_next=st.booleans(), early=st.sampled_from([0, 0, 1]), dies=st.booleans())
    def do_what_is_due(self, to_the_next: bool, early: int, dies: bool) -> None:
        """At the very time of the next one, or a moment earlier; perhaps in a process that dies
        after its work, so that another does it again."""
        coming = [
            post.deliver_at - early
            for box in self.boxes.values()
            for post in box.later.values()
            if post.deliver_at is not None and post.deliver_at - early > self.now
        ]
        if to_the_next and coming:
            self.product.clock.time = min(coming)
        self.product.run(self._work(is_dropped=not dies))
        for box in self.boxes.values():
            for post in box.later.values():
                is_left = post.deliver_at is not None and post.deliver_at <= self.now
                assert not is_left or post.is_gone(self.now)

    async def _work(self, *, is_dropped: bool) -> None:
        core = self.product.deployment.core
        due = core.store.due
        found: list[Due] = []
        for shard in await due.lease("inbox", HOLDER, self.now):
            found += await due.read("inbox", shard, self.now, 100)
        for one in sorted(found, key=lambda item: (item.at, item.item_id)):
            box = self.boxes[one.subject]
            is_retracted = box.later[one.item_id].is_redacted
            self.happened["retracted before its time"] += is_retracted
            self.happened["due"] += not is_retracted
            box.become_due(one.item_id, self.now)
            try:
                await core.due_work["inbox"].do(one)
            except NotYet:
                pytest.fail("everything is stored")
            if is_dropped:
                await due.drop(one)
