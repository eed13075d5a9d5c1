# SPDX-License-Identifier: Apache-2.0
"""Unsubscribing from e-mails with one click, without a login, and for nobody else."""

import re
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import httpx
import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.escalation_world import Escalation
from tests.integration.escalation_world import mail as mail
from tests.integration.escalation_world import news as news
from tests.integration.escalation_world import rest as rest
from tests.integration.escalation_world import tls as tls
from tests.integration.inbox_world import Reader
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json
from tidings.model.ids import user_key
from tidings.model.notifications import ReadState

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE_CLICK = {"List-Unsubscribe": "One-Click"}
_titles = count(1)


async def emailed(news: Escalation, *names: str, category: str | None = None) -> list[str]:
    """Escalate a notification; return who of these gets an e-mail."""
    title = f"title {next(_titles)}"
    more: Json = {} if category is None else {"category": category}
    await news.tell(*names, title=title, **more)
    await news.pass_time()
    sent = [one for one in news.mail.received if one.message["Subject"] == title]
    return sorted(one.recipient.partition("@")[0] for one in sent)


def link(news: Escalation, name: str = "ann") -> str:
    """The path of the link in the last e-mail to a user."""
    header = news.mail.to(news.address(name))[-1].message["List-Unsubscribe"]
    found = re.fullmatch(r"<https://chat\.example\.org(/v1/unsubscribe/[\w-]+)>", header)
    assert found is not None
    return found[1]


async def click(news: Escalation, path: str) -> httpx.Response:
    """What a mail program does."""
    return await news.rest.http.post(path, data=ONE_CLICK)


async def preferences(reader: Reader) -> Json:
    got: Json = await reader.actor.ok("GET", f"/v1/inboxes/{reader.inbox}/preferences")
    return got


async def test_one_click_ends_emails_about_this_category_only(news: Escalation) -> None:
    ann = await news.user("ann")
    await news.user("bob")
    assert await emailed(news, "ann", "bob", category="offers") == ["ann", "bob"]
    path = link(news)
    got = news.mail.to(news.address("ann"))[-1]
    assert got.message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert path in got.part("plain").replace("=\n", "")
    assert path in got.part("html")
    for _ in range(2):
        answer = await click(news, path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
    assert (await preferences(ann))["categories"]["offers"]["email"] is False
    assert await emailed(news, "ann", "bob", category="offers") == ["bob"]
    assert await emailed(news, "ann", "bob", category="news") == ["ann", "bob"]
    assert await emailed(news, "ann") == ["ann"]


async def test_other_choices_of_the_user_stay(news: Escalation) -> None:
    ann = await news.user("ann")
    quiet = {"from": "03:00", "to": "03:01", "timezone": "UTC"}
    chosen = {
        "categories": {"offers": {"push": False}, "x": {"in_app": False}},
        "quiet_hours": quiet,
    }
    await ann.actor.ok("PUT", f"/v1/inboxes/{ann.inbox}/preferences", chosen)
    await emailed(news, "ann", category="offers")
    await click(news, link(news))
    after = await preferences(ann)
    off = {"required": False, "in_app": True, "push": False, "email": False}
    assert after["categories"]["offers"] == off
    assert after["categories"]["x"]["in_app"] is False
    assert after["quiet_hours"] == quiet


def in_between(
    news: Escalation, monkeypatch: pytest.MonkeyPatch, other: Callable[[], Awaitable[object]]
) -> None:
    """Let something happen right after the next time that the preferences of a user are read."""
    copies = type(news.rest.core.store.copies)
    read, waiting = copies.read_state, [other]

    async def read_state(*place: Any) -> ReadState:
        state = await read(*place)
        if waiting:
            await waiting.pop()()
        return state

    monkeypatch.setattr(copies, "read_state", read_state)


async def test_what_another_device_chooses_meanwhile_stays(
    news: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await news.user("ann")
    await emailed(news, "ann", category="offers")
    own = f"/v1/inboxes/{ann.inbox}/preferences"
    quiet = {"from": "03:00", "to": "03:01", "timezone": "UTC"}
    in_between(news, monkeypatch, lambda: ann.actor.ok("PUT", own, {"quiet_hours": quiet}))
    assert (await click(news, link(news))).status_code == 200
    after = await preferences(ann)
    assert after["categories"]["offers"]["email"] is False
    assert after["quiet_hours"] == quiet


async def test_a_change_of_other_choices_meanwhile_does_not_undo_it(
    news: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await news.user("ann")
    await emailed(news, "ann")
    own, path = f"/v1/inboxes/{ann.inbox}/preferences", link(news)
    await ann.actor.ok("PUT", own, {"categories": {}})
    news.rest.clock.time += 2_000  # the settings of an inbox are cached for a second
    in_between(news, monkeypatch, lambda: click(news, path))
    after = await ann.actor.ok("PUT", own, {"categories": {"offers": {"push": False}}})
    assert after["uncategorized"] == {"email": False}
    assert await preferences(ann) == after


async def test_a_default_that_is_switched_on_later_does_not_undo_it(news: Escalation) -> None:
    ann = await news.user("ann")
    await emailed(news, "ann", category="offers")
    path = link(news)
    for is_on in (False, True):
        rules = {"offers": {"email": is_on}}
        await news.room.actor.ok("PUT", news.room.path, {"title": "News", "category_rules": rules})
        news.rest.clock.time += 2_000  # the settings of an inbox are cached for a second
        if not is_on:
            await click(news, path)
    assert (await preferences(ann))["categories"]["offers"]["email"] is False


async def test_opening_the_page_changes_nothing(news: Escalation) -> None:
    """Programs that check links open them."""
    await news.user("ann")
    await emailed(news, "ann", category="offers")
    answer = await news.rest.http.get(link(news))
    assert answer.status_code == 200
    assert '<form method="post">' in answer.text
    assert "ann" not in answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert await emailed(news, "ann", category="offers") == ["ann"]


async def test_without_a_category_there_is_a_choice_too(news: Escalation) -> None:
    ann = await news.user("ann")
    assert await emailed(news, "ann") == ["ann"]
    assert "uncategorized" not in await preferences(ann)
    await click(news, link(news))
    assert await emailed(news, "ann") == []
    assert await emailed(news, "ann", category="offers") == ["ann"]
    assert (await preferences(ann))["uncategorized"] == {"email": False}
    path = f"/v1/inboxes/{ann.inbox}/preferences"
    kept = await ann.actor.ok("PUT", path, {"categories": {}})
    assert kept["uncategorized"] == {"email": False}
    back = await ann.actor.ok("PUT", path, {"uncategorized": {"email": True}})
    assert "uncategorized" not in back
    assert await emailed(news, "ann") == ["ann"]


async def test_a_required_category_has_no_link(news: Escalation) -> None:
    await news.user("ann")
    rules = {"security": {"required": True}}
    body = {"title": "News", "category_rules": rules}
    await emailed(news, "ann", category="security")
    before = link(news)
    await news.room.actor.ok("PUT", news.room.path, body)
    news.rest.clock.time += 2_000  # the settings of an inbox are cached for a second
    assert await emailed(news, "ann", category="security") == ["ann"]
    got = news.mail.to(news.address("ann"))[-1]
    assert got.message["List-Unsubscribe"] is None
    assert "unsubscribe" not in got.part("plain").lower()
    answer = await click(news, before)
    assert (answer.status_code, answer.json()["code"]) == (409, "preferences.required")


async def test_a_changed_link_says_nothing(news: Escalation) -> None:
    await news.user("ann")
    await emailed(news, "ann", category="offers")
    path = link(news)
    for wrong in (path[:-2], f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}A", f"{path[:20]}AAAA"):
        for method in ("GET", "POST"):
            answer = await news.rest.http.request(method, wrong)
            assert (answer.status_code, answer.json()["code"]) == (404, "unsubscribe.unknown")
    assert await emailed(news, "ann", category="offers") == ["ann"]


async def test_the_link_of_a_user_who_is_gone_stores_nothing(news: Escalation) -> None:
    await news.user("ann")
    await emailed(news, "ann", category="offers")
    path = link(news)
    await news.room.actor.ok("DELETE", f"/v1/tenants/{news.room.tenant}/users/ann")
    answer = await click(news, path)
    assert answer.status_code == 200
    store = news.rest.core.store.copies
    state = await store.read_state(user_key(news.room.tenant, "ann"), news.room.inbox)
    assert state.preferences is None


async def test_a_link_does_not_name_the_user(news: Escalation) -> None:
    await news.user("canary-ann")
    await emailed(news, "canary-ann", category="offers")
    assert "canary" not in link(news, "canary-ann")
