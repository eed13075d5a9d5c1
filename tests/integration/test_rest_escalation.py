# SPDX-License-Identifier: Apache-2.0
"""Escalation by e-mail: to listed users with an address who have not read it, once, and in time."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.escalation_world import MINUTE, SENDER, Escalation
from tests.integration.escalation_world import mail as mail
from tests.integration.escalation_world import news as news
from tests.integration.escalation_world import rest as rest
from tests.integration.escalation_world import tls as tls
from tests.integration.inbox_world import delivering as delivering
from tests.integration.inbox_world import to_everyone, to_users
from tests.integration.rest_world import Json
from tests.integration.test_rest_scheduled import pass_time as pass_other_time
from tests.support.mail_server import HANG_UP
from tidings.actions.inbox.emailing import ATTEMPTS_MAX
from tidings.metrics import declared
from tidings.model.ids import rfc3339, user_key
from tidings.model.notifications import ESCALATE_MINUTES_MAX
from tidings.ports.people import ProfileFields

pytestmark = pytest.mark.asyncio(loop_scope="module")

EMAIL_STEPS = ("email_claimed", "escalated")


async def explained(news: Escalation, user: str, name: str) -> tuple[str, str]:
    """The code of the verdict about a notification, and the step of its e-mail."""
    tenant = news.room.tenant
    path = f"/v1/tenants/{tenant}/explain?user_id={user}&notification_id={name}"
    told = await news.room.actor.ok("GET", path)
    (step,) = [one["what"] for one in told["timeline"] if one["what"] in EMAIL_STEPS]
    return told["code"], step


async def test_who_has_not_read_it_gets_one_email_in_time(news: Escalation) -> None:
    ann, bob = await news.user("ann"), await news.user("bob")
    await news.user("cat", None)
    message = {"title": "Säle\r\nBcc: eve@example.org", "body": "<b>Now</b>\nor never"}
    message["cta_uri"] = "https://shop.example.org/?a=1&b=2"
    name = await news.tell("ann", "bob", "cat", "dan", message=message)
    await bob.read(ids=[name])
    await news.pass_time(4.9)
    assert news.mailed == []
    await news.pass_time(0.1)
    assert news.mailed == ["ann"]
    assert await news.raised() == [("ann", "sent")]
    assert await explained(news, "ann", name) == ("escalated", "escalated")
    (got,) = news.mail.to(news.address("ann"))
    assert (got.sender, got.was_encrypted) == (SENDER, True)
    assert got.message["Subject"] == "Säle Bcc: eve@example.org"
    assert got.message["Bcc"] is None
    (sender,) = got.message["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ("News", SENDER)
    assert "<b>Now</b>\r\nor never" in got.part("plain").replace("\r\n", "\n").replace("\n", "\r\n")
    assert "&lt;b&gt;Now&lt;/b&gt;<br>" in got.part("html")
    assert 'href="https://shop.example.org/?a=1&amp;b=2"' in got.part("html")
    assert await ann.titles() == [message["title"]]
    await news.pass_time(60)
    assert news.mailed == ["ann"]
    assert await news.raised() == [("ann", "sent")]


async def test_what_was_read_archived_snoozed_or_retracted_is_not_escalated(
    news: Escalation,
) -> None:
    users = [await news.user(name) for name in ("ann", "bob", "cat")]
    name = await news.tell("ann", "bob", "cat")
    now = news.rest.clock.time
    changes: list[Json] = [
        {"ids": [name], "archived": True},
        {"ids": [name], "snooze_until": rfc3339(now + 60 * MINUTE)},
        {"before": rfc3339(now), "read": True},
    ]
    for user, change in zip(users, changes, strict=True):
        await user.actor.ok("PUT", f"/v1/inboxes/{news.room.inbox}/state", change)
    retracted = await news.tell("ann")
    await news.room.redact(retracted)
    expiring = rfc3339(news.rest.clock.time + 4 * MINUTE)
    await news.tell("ann", expires_at=expiring)
    await news.pass_time()
    assert news.mailed == []
    assert await news.raised() == []


async def test_only_the_newest_of_a_collapse_key_is_escalated(news: Escalation) -> None:
    await news.user("ann")
    await news.tell("ann", title="one", collapse_key="k")
    news.rest.clock.time += 1
    await news.tell("ann", title="two", collapse_key="k")
    await news.pass_time()
    assert [got.message["Subject"] for got in news.mail.to(news.address("ann"))] == ["two"]


async def test_preferences_and_quiet_hours_decide(news: Escalation) -> None:
    users = {name: await news.user(name) for name in ("ann", "bob", "cat")}
    path = f"/v1/inboxes/{news.room.inbox}/preferences"
    off = {"categories": {"news": {"email": False}}}
    await users["ann"].actor.ok("PUT", path, off)
    # From now on for two hours, whatever the time is.
    clock = [rfc3339(news.rest.clock.time + hours * 60 * MINUTE)[11:16] for hours in (0, 2)]
    quiet = {"from": clock[0], "to": clock[1], "timezone": "UTC"}
    await users["bob"].actor.ok("PUT", path, {"quiet_hours": quiet})
    await news.tell("ann", "bob", "cat", category="news")
    await news.pass_time()
    assert news.mailed == ["cat"]
    assert await news.raised() == [("cat", "sent")]
    await news.pass_time(60)
    assert news.mailed == ["cat"]
    await news.pass_time(60)
    assert news.mailed == ["bob", "cat"]
    assert await news.raised() == [("bob", "sent"), ("cat", "sent")]


async def test_what_is_delivered_later_is_escalated_later(news: Escalation) -> None:
    await news.user("ann")
    at = rfc3339(news.rest.clock.time + 60 * MINUTE)
    body = to_users(["ann"], "later", deliver_at=at, escalate={"email_after_minutes": 10})
    posted = await news.room.post(body)
    await pass_other_time(news.rest, 60)
    await news.room.delivered(str(posted["id"]))
    await news.pass_time(9.9)
    assert news.mailed == []
    await news.pass_time(0.1)
    assert news.mailed == ["ann"]


async def test_a_repeated_post_escalates_once(news: Escalation) -> None:
    await news.user("ann")
    body = to_users(["ann"], "once", escalate={"email_after_minutes": 1})
    posted = [await news.room.post(body, {"Idempotency-Key": "k"}) for _ in range(2)]
    assert posted[0] == posted[1]
    await news.room.delivered(str(posted[0]["id"]))
    await news.pass_time(1)
    await news.room.post(body, {"Idempotency-Key": "k"})
    await news.pass_time(1)
    assert news.mailed == ["ann"]
    other = {**body, "escalate": {"email_after_minutes": 2}}
    answer = await news.room.try_post(other, {"Idempotency-Key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "request.conflict")


@pytest.mark.parametrize("minutes", [0, -1, ESCALATE_MINUTES_MAX + 1, 1.5, "5", None])
async def test_a_malformed_escalation_is_refused(news: Escalation, minutes: object) -> None:
    body = to_users(["ann"], "never", escalate={"email_after_minutes": minutes})
    answer = await news.room.try_post(body)
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")


async def test_everyone_cannot_be_escalated_to(news: Escalation) -> None:
    answer = await news.room.try_post(to_everyone("all", escalate={"email_after_minutes": 1}))
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/escalate"


async def test_an_answer_to_try_again_is_followed(news: Escalation) -> None:
    await news.user("ann")
    await news.user("bob")
    await news.tell("ann", "bob")
    news.mail.answers["RCPT"] += ["451 greylisted", "550 no such user"]
    await news.pass_time()
    assert news.mailed == []
    assert await news.raised() == [("bob", "refused")]
    await news.pass_time(0.9)
    assert news.mailed == []
    await news.pass_time(0.2)
    assert news.mailed == ["ann"]
    await news.pass_time(600)
    assert news.mailed == ["ann"]
    assert await news.raised() == [("ann", "sent"), ("bob", "refused")]


async def test_read_between_two_attempts_ends_it(news: Escalation) -> None:
    ann = await news.user("ann")
    name = await news.tell("ann")
    news.mail.answers["RCPT"].append("451 greylisted")
    await news.pass_time()
    await ann.read(ids=[name])
    await news.pass_time()
    assert (news.mailed, await news.raised()) == ([], [])


async def test_an_unknown_outcome_is_not_repeated(news: Escalation) -> None:
    await news.user("ann")
    await news.user("bob")
    await news.tell("ann", "bob")
    news.mail.answers["END"].append(HANG_UP)
    await news.pass_time()
    await news.pass_time(2)
    assert len(news.mailed) == 1
    assert sorted(result for _, result in await news.raised()) == ["sent", "unknown"]


async def test_a_mail_server_that_stays_away_is_given_up(news: Escalation) -> None:
    await news.user("ann")
    await news.tell("ann")
    news.mail.answers["CONNECT"] += ["554 no"] * ATTEMPTS_MAX
    before = declared.emails.counts["failed"]
    await news.pass_time()
    for _ in range(ATTEMPTS_MAX - 1):
        assert await news.raised() == []
        await news.pass_time(60)
    assert news.mail.answers["CONNECT"] == []
    await news.pass_time(60)
    assert await news.raised() == [("ann", "failed")]
    assert declared.emails.counts["failed"] == before + 1
    await news.pass_time(600)
    assert (news.mailed, len(await news.raised())) == ([], 1)


async def test_a_late_delivery_is_waited_for(news: Escalation) -> None:
    """The users cannot have read what they do not have yet."""
    await news.user("ann")
    name = await news.tell("ann")
    place = (news.room.tenant, news.room.inbox, name)
    store = news.rest.core.store
    finished = type(store.notifications).finished_jobs

    async def none(*_: object) -> set[int]:
        return set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store.notifications), "finished_jobs", none)
        await news.pass_time()
        assert (await store.escalations.get(*place, 0)).attempt == 1  # type: ignore[union-attr]
    assert type(store.notifications).finished_jobs is finished
    assert news.mailed == []
    await news.pass_time(1)
    assert news.mailed == ["ann"]


async def test_a_claim_without_an_end_is_not_sent_again(news: Escalation) -> None:
    """The process died after the claim: nobody knows whether the e-mail was sent."""
    await news.user("ann")
    name = await news.tell("ann")
    user = user_key(news.room.tenant, "ann")
    escalations = news.rest.core.store.escalations
    assert await escalations.claim(user, news.room.inbox, name, news.rest.clock.time)
    assert await explained(news, "ann", name) == ("escalated", "email_claimed")
    await news.pass_time()
    assert news.mailed == []
    assert await news.raised() == [("ann", "unknown")]


async def test_who_is_deactivated_or_has_a_strange_address_gets_nothing(news: Escalation) -> None:
    await news.user("ann")
    path = f"/v1/tenants/{news.room.tenant}/users/ann"
    await news.tell("ann")
    await news.room.actor.ok("PUT", path, {"deactivated": True})
    await news.pass_time()
    assert (news.mailed, await news.raised()) == ([], [])


@pytest.mark.parametrize(
    "address",
    [
        '"ann"@example.org',
        "ann@example",
        "a nn@example.org",
        "ann@example.org\r\nBcc: x@y.z",
        "ä@b.c",
        "=?utf-8?q?a=0d=0aBcc=3ax?=@example.org",
    ],
)
async def test_unusual_addresses_are_refused(news: Escalation, address: str) -> None:
    path = f"/v1/tenants/{news.room.tenant}/users/ann"
    answer = await news.room.actor.call("PUT", path, {"email": address})
    assert (answer.status_code, answer.json()["code"]) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/email"


async def test_an_unusual_address_from_before_can_be_sent_back(news: Escalation) -> None:
    """Such addresses were accepted once. They get no e-mails, but a tenant sends whole users."""
    old = '"ann"@example.org'
    user, path = user_key(news.room.tenant, "ann"), f"/v1/tenants/{news.room.tenant}/users/ann"
    await news.rest.core.store.users.put(
        user,
        display_name="Ann",
        phone_number=None,
        now=news.rest.clock.time,
        fields=ProfileFields(email=old),
    )
    put = await news.room.actor.ok("PUT", path, {"email": old, "display_name": "Anna"})
    assert (put["email"], put["display_name"]) == (old, "Anna")
    other = await news.room.actor.call("PUT", path, {"email": '"bob"@example.org'})
    assert other.status_code == 400
    await news.tell("ann")
    await news.pass_time()
    assert (news.mailed, await news.raised()) == ([], [])


async def test_portions_of_users_are_escalated_one_by_one(news: Escalation) -> None:
    names = [f"u{number:03d}" for number in range(150)]
    for name in names[95:105]:
        await news.user(name)
    await news.tell(*names)
    await news.pass_time()
    assert news.mailed == names[95:105]
