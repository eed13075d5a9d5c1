# SPDX-License-Identifier: Apache-2.0
"""Rules for notifications that are escalated by e-mail if nobody has read them in time."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.contract.test_people import a_signing_key, a_tenant
from tests.model.inbox_later import HOLDER, LaterRules
from tests.model.inbox_reference import Post
from tests.model.inbox_tenant import TENANT, boxes, categories, everyone_there
from tidings.actions.inbox.emailing import ATTEMPTS_MAX
from tidings.model.escalations import MINUTE_MS
from tidings.model.ids import user_key
from tidings.model.notifications import NotificationAction, Posting, PostOptions
from tidings.ports.due import Due
from tidings.ports.people import ProfileFields
from tidings.ports.tenant_jobs import NotYet

HOUR_MS: Final = 60 * MINUTE_MS
WITHOUT_ADDRESS: Final = ("bob", "dan")


@dataclass
class Planned:
    """An escalation that is to come."""

    inbox: str
    post: Post
    at: int
    attempt: int = 0


class EscalationRules(LaterRules):
    """What is escalated. The deployment has no mail server: who would get an e-mail is in the
    copies all the same."""

    def _join(self, user: str) -> None:
        super()._join(user)
        if user not in WITHOUT_ADDRESS:
            store, key = self.product.deployment.core.store, user_key(TENANT, user)
            fields = ProfileFields(email=f"{user}@example.org")
            self.product.run(
                store.users.put(
                    key, display_name=None, phone_number=None, now=self.now, fields=fields
                )
            )

    @initialize()
    def make_tenant(self) -> None:
        """Nothing is escalated for a tenant that is not there."""
        tenants = self.product.deployment.core.store.tenants
        self.product.run(tenants.put(a_tenant(TENANT), a_signing_key("s1")))

    @property
    def planned(self) -> dict[str, Planned]:
        """The escalations to come, by the notification."""
        found: dict[str, Planned] = self.__dict__.setdefault("_planned", {})
        return found

    @property
    def emailed(self) -> set[tuple[str, str]]:
        """Who was to get an e-mail about what."""
        found: set[tuple[str, str]] = self.__dict__.setdefault("_emailed", set())
        return found

    @rule(
        inbox=boxes,
        users=st.lists(everyone_there, min_size=1, max_size=4, unique=True),
        category=categories,
        minutes=st.sampled_from([1, 2, 90]),
    )
    def post_with_escalation(
        self, inbox: str, users: list[str], category: str | None, minutes: int
    ) -> None:
        title, names = f"t{next(self.titles)}", ("yes", "no") if category else ()
        actions = tuple(NotificationAction(id=name, label=name) for name in names)
        options = PostOptions(actions=actions, email_after_minutes=minutes)
        message: dict[str, object] = {"title": title, "body": ""}
        posting = Posting(users=users, message=message, category=category, options=options)
        posted = self.product.run(self.verbs.post(TENANT, inbox, posting, None))
        name = posted.notification_id
        made = self.boxes[inbox].post(name, title, category, users, self.now, actions=names)
        self.planned[name] = Planned(inbox, made, self.now + minutes * MINUTE_MS)
        self.happened["with an escalation"] += 1

    @precondition(lambda self: self.planned)
    @rule(to_the_next=st.booleans(), dies=st.booleans())
    def escalate(self, to_the_next: bool, dies: bool) -> None:
        """At the time of the next one, or now; perhaps in a process that dies after its work."""
        coming = [one.at for one in self.planned.values() if one.at > self.now]
        if to_the_next and coming:
            self.product.clock.time = min(coming)
        self.product.run(self._escalate(is_dropped=not dies))
        for name, plan in list(self.planned.items()):
            if plan.at <= self.now:
                self._become_escalated(name, plan)
        self._compare_emails()

    async def _escalate(self, *, is_dropped: bool) -> None:
        core = self.product.deployment.core
        due, found = core.store.due, list[Due]()
        for shard in await due.lease("escalation", HOLDER, self.now):
            found += await due.read("escalation", shard, self.now, 100)
        for one in found:
            with suppress(NotYet):  # the notification is gone, and the item is young
                await core.email_work["escalation"].do(one)
                if is_dropped:
                    await due.drop(one)

    def _become_escalated(self, name: str, plan: Planned) -> None:
        post, box = plan.post, self.boxes[plan.inbox]
        if not post.is_gone(self.now) and name in box.waiting and plan.attempt <= ATTEMPTS_MAX:
            plan.at = self.now + min(MINUTE_MS * 2**plan.attempt, HOUR_MS)
            plan.attempt += 1
            self.happened["escalated before delivery"] += 1
            return
        del self.planned[name]
        if post.is_gone(self.now) or name in box.waiting:
            return
        for user in post.had:
            own = box._own(post, user)
            is_done = bool(own.times["read"] or own.times["archived"])
            is_open = not is_done and (own.snoozed_until or 0) <= self.now
            if is_open and user in self.joined and user not in WITHOUT_ADDRESS:
                self.emailed.add((user, name))
            self.happened["escalated" if is_open else "read before it was escalated"] += 1

    def _compare_emails(self) -> None:
        """The copies say who was to get an e-mail, and nobody else."""
        store = self.product.deployment.core.store.escalations
        for inbox, box in self.boxes.items():
            for name, post in box.posts.items():
                if post.users is None or post.is_gone(self.now):
                    continue
                keys = {user_key(TENANT, user): user for user in post.had}
                copies = self.product.run(store.copies(list(keys), inbox, name))
                claimed = {keys[key] for key in copies if copies[key].escalated_at is not None}
                expected = {user for user, about in self.emailed if about == name}
                assert claimed == expected
