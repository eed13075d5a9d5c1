# SPDX-License-Identifier: Apache-2.0
"""The audit trail over REST: every administrative act is in it, and no secret and no content."""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from starlette.requests import Request

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import open_newsroom, to_everyone
from tests.integration.rest_world import TENANT, Actor, Json, Rest, address, open_rest, problem
from tidings.actions.identity.audit import Intent
from tidings.actions.identity.caller import TenantCaller
from tidings.api.app import OPERATIONS
from tidings.api.audit import Recorder
from tidings.api.operations import Audited, NotAudited, Operation, operation
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.audit import AuditEntry

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMINISTRATIVE = [
    one for one in OPERATIONS if one.key not in (None, "user") and one.method != "GET"
]
SECRETS = re.compile(r"sk_[0-9a-f]{16}_|rt_|eyJ|PRIVATE|[A-Za-z0-9_-]{40}")


@pytest_asyncio.fixture(loop_scope="module")
async def backend(rest: Rest) -> Actor:
    return await rest.tenant()


async def acts_of(actor: Actor, tenant: str | None = TENANT, limit: int = 100) -> list[Json]:
    """The newest acts, newest first."""
    path = "/v1/audit" if tenant is None else f"/v1/tenants/{tenant}/audit"
    page = await actor.ok("GET", f"{path}?limit={limit}")
    acts: list[Json] = page["data"]
    return acts


def told(act: Json) -> tuple[Any, ...]:
    return tuple(act[name] for name in ("actor", "action", "target", "outcome", "code"))


@pytest.mark.attack("S14", "H09")
async def test_whoever_adds_an_administrative_operation_has_it_recorded() -> None:
    unrecorded = {
        one.name: one.audit.reason for one in ADMINISTRATIVE if isinstance(one.audit, NotAudited)
    }
    assert unrecorded.keys() == {"post_notification", "stack_post", "pull_webhook"}
    assert all(reason.endswith(".") for reason in unrecorded.values())
    rest = [one for one in OPERATIONS if one not in ADMINISTRATIVE]
    recorded = {one.name for one in rest if one.audit}
    assert recorded == {
        "export_user",
        "download_export",
        "explain",
        "get_hook_secret",
        "list_reports",
        "read_own_file",
        "read_reported_file",
        "trace",
    }, "reading what a person wrote, when they read, or a secret, is recorded, too"
    assert all(one.audit is not None for one in ADMINISTRATIVE)


@pytest.mark.attack("S14", "H09")
@pytest.mark.parametrize(
    "one",
    [one for one in ADMINISTRATIVE if isinstance(one.audit, Audited)],
    ids=lambda one: one.name,
)
async def test_an_act_is_recorded_whether_it_succeeds_or_not(rest: Rest, one: Operation) -> None:
    """Bodies of nothing are refused before anything is begun; all else is in the trail."""
    actor = rest.root if one.key == "root" else await rest.tenant()
    body = BODIES.get(one.name)
    answer = await actor.call(
        one.method,
        address(one, **NOT_THERE.get(one.name, {})),
        body,
        headers={"X-Request-Id": one.name},
    )
    assert answer.status_code < 500
    acts = await acts_of(rest.root, None, 10)
    act = next(act for act in acts if act["request_id"] == one.name)
    assert act["action"] == one.name
    assert act["actor"] == ("root" if one.key == "root" else "tenant_key")
    is_of_all = one.key == "root" and "tenant" not in one.path_parameters
    named = NOT_THERE.get(one.name, {}).get("tenant", TENANT)
    assert act["tenant"] == (None if is_of_all else named)
    assert act["outcome"] == ("done" if answer.is_success else "refused")
    assert act["code"] == (None if answer.is_success else answer.json()["code"])


NOT_THERE: dict[str, Json] = {
    "delete_user": {"user_id": "nobody"},
    "delete_tenant": {"tenant": "nowhere"},
}
"""Deletions are for good, so they are not asked for what others need."""
BODIES: dict[str, Json] = {
    "make_token": {"user_id": "bob"},
    "put_token_issuer": {"keys": [{"kid": "a", "kty": "OKP"}]},
    "put_settings": {"inbox": {"keep_days": 3}},
    "put_inbox": {"title": "News"},
    "stack_redact": {"id": "b1"},
    "unseal_entries": {"reason": "a test"},
    "unseal_report": {"reason": "a test"},
    "put_webhook": {"url": None, "events": ["chat.created"]},
    "replay_webhook": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    "change_settings": {"frozen": True},
    "set_push_settings": {"content": "preview"},
    "send_test_notice": {"user_id": "bob"},
    "change_report": {"state": "resolved"},
    "create_tenant_chat": {"type": "group", "name": "Crew", "members": ["bob"]},
    "post_tenant_message": {"client_message_id": "m1", "content": "Hello"},
}


@pytest.mark.attack("H09")
async def test_who_did_what_to_what(rest: Rest, backend: Actor) -> None:
    path = f"/v1/tenants/{TENANT}"
    key = await rest.root.ok("POST", f"{path}/keys")
    await backend.ok("PUT", f"{path}/users/bob", {"display_name": "Bob", "deactivated": True})
    await backend.ok("DELETE", f"{path}/users/bob/content")
    await rest.root.ok("DELETE", f"{path}/keys/{key['key_id']}")
    await backend.refused("DELETE", f"{path}/users/nobody/content")
    acts = await acts_of(backend, limit=5)
    assert [told(act) for act in acts] == [
        ("tenant_key", "erase_user_content", "nobody", "refused", "user.not_found"),
        ("root", "revoke_tenant_key", key["key_id"], "done", None),
        ("tenant_key", "erase_user_content", "bob", "done", None),
        ("tenant_key", "put_user", "bob", "done", None),
        ("root", "make_tenant_key", key["key_id"], "done", None),
    ]
    assert acts[3]["fields"] == ["display_name", "deactivated=true"]
    own_key = str(backend.credential).split("_")[1]
    assert {act["actor_id"] for act in acts} == {own_key, None}
    assert all(act["tenant"] == TENANT for act in acts)


class Made(msgspec.Struct):
    thing_id: str


async def test_what_an_act_makes_is_the_last_part_of_its_target(rest: Rest) -> None:
    async def make_thing() -> Made:
        return Made("t1")

    path, audit = "/v1/tenants/{tenant}/chats/{chat_id}/things", Audited(target="thing_id")
    declare = operation("POST", path, tag="T", summary="Make it", key="tenant", audit=audit)
    scope = {
        "type": "http",
        "state": {},
        "headers": [],
        "path_params": {"tenant": TENANT, "chat_id": "c1"},
        "user": TenantCaller(TENANT, "k1"),
    }
    recorder = Recorder(rest.core.audit, rest.core.chance)
    await recorder.record(audit, declare(make_thing), Request(scope), {})
    (act,) = await acts_of(rest.root, None, 1)
    assert told(act) == ("tenant_key", "make_thing", "c1/t1", "done", None)


@pytest.mark.attack("S14")
async def test_of_settings_only_switches_are_told(rest: Rest, backend: Actor) -> None:
    own = {"secret": "hunter2", "phone": "x"}
    path = f"/v1/tenants/{TENANT}/settings"
    for body, fields in (
        ({"login": {"phone": True}, **own}, ["login.phone=true"]),
        ({"login": {"register": False}, "invites": "ask"}, ["login.register=false", "invites=ask"]),
        ({"invites": "Sk_0123456789", **own}, []),
        ({"chats": {"keep_days": 30}}, ["chats.keep_days=30"]),
        ({"invites": 4930901820, "login": ["phone"]}, []),
    ):
        await backend.call("PUT", path, body)
        assert (await acts_of(backend, limit=1))[0]["fields"] == fields


@pytest.mark.attack("S14")
async def test_tokens_asked_for_at_once_are_each_in_the_trail(rest: Rest, backend: Actor) -> None:
    names = [f"u{number}" for number in range(60)]
    path = f"/v1/tenants/{TENANT}/tokens"
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(backend.ok("POST", path, {"user_id": name}))
    acts = (await acts_of(backend))[: len(names)]
    assert sorted(act["target"] for act in acts) == sorted(names)
    assert {told(act)[1:2] + told(act)[3:] for act in acts} == {("make_token", "done", None)}
    assert len({act["id"] for act in acts}) == len(names)
    entries = await rest.core.store.audit.page(
        TENANT, since=0, before=(rest.clock.time + 1, ""), limit=100
    )
    shared = [entry for entry in entries if entry.acts[0].target in names]
    assert len(shared) < len(names), "many share one entry"
    assert max(len(entry.acts) for entry in shared) <= limits.AUDIT_ACTS_MAX


async def test_every_page_together_is_the_whole_trail(rest: Rest, backend: Actor) -> None:
    whole = await acts_of(backend)
    seen: list[Json] = []
    cursor = ""
    while len(seen) < len(whole):
        page = await backend.ok("GET", f"/v1/tenants/{TENANT}/audit?limit=7{cursor}")
        assert 0 < len(page["data"]) <= 7
        seen += page["data"]
        cursor = f"&cursor={page['next_cursor']}"
        if page["next_cursor"] is None:
            break
    assert seen[: len(whole)] == whole


@pytest.mark.attack("D17")
async def test_a_cursor_is_for_one_list(rest: Rest, backend: Actor) -> None:
    other = await rest.tenant("others")
    for _ in range(3):
        await backend.ok("POST", f"/v1/tenants/{TENANT}/tokens", {"user_id": "ann"})
    page = await backend.ok("GET", f"/v1/tenants/{TENANT}/audit?limit=1")
    for actor, path in (
        (other, "/v1/tenants/others/audit"),
        (rest.root, "/v1/audit"),
        (rest.root, "/v1/tenants/others/audit"),
    ):
        wanted = f"{path}?cursor={page['next_cursor']}"
        assert await actor.refused("GET", wanted) == (400, "cursor.invalid")


@pytest.mark.attack("H09", "H05")
async def test_no_secret_and_no_content_is_in_it(rest: Rest, backend: Actor) -> None:
    path = f"/v1/tenants/{TENANT}"
    key = await rest.root.ok("POST", f"{path}/keys")
    news = await open_newsroom(rest, "secret")
    await news.post(to_everyone("confidential"))
    await backend.ok("PUT", f"{path}/users/bob", {"phone_number": "+4915112345678"})
    # Somebody pastes a whole key where its id belongs.
    await rest.root.refused("DELETE", f"{path}/keys/{key['key']}")
    acts = await acts_of(rest.root, None)
    text = str([{**act, "request_id": None, "id": None} for act in acts])
    for secret in ("confidential", "4915112345678", key["key"], str(backend.credential)):
        assert secret not in text
    assert SECRETS.search(text) is None, SECRETS.search(text)
    assert acts[0]["target"] == "?"


@pytest.mark.attack("S14")
async def test_who_may_not_act_cannot_fill_it(rest: Rest, backend: Actor) -> None:
    user, other = await rest.user("mallory"), await rest.tenant("others")
    before = await acts_of(rest.root, None, 1)
    # At a path without a tenant a key acts in its own, and fills only its own trail.
    for one in (one for one in ADMINISTRATIVE if one.key != "user or tenant"):
        for actor in (user, other, rest.nobody, *([backend] if one.key == "root" else [])):
            answer = await actor.call(
                one.method, address(one, **NOT_THERE.get(one.name, {})), BODIES.get(one.name)
            )
            assert answer.status_code in (401, 403, 404, 400), one.name
    assert await acts_of(rest.root, None, 1) == before


async def test_what_is_older_than_400_days_is_gone(tmp_path: Path) -> None:
    async with open_rest(tmp_path / "data") as rest:
        backend = await rest.tenant()
        assert len(await acts_of(backend)) == 2
        rest.clock.time += limits.AUDIT_MS + 1
        assert await acts_of(backend) == []


# Trouble.


class Trail:
    """Entries that cannot be written at a certain step."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.fails_to: str | None = None

    async def append(self, entry: AuditEntry) -> None:
        if self.fails_to == "append":
            raise StoreUnavailable
        await self.inner.append(entry)

    async def complete(self, entry: AuditEntry) -> None:
        if self.fails_to == "complete":
            raise StoreUnavailable
        await self.inner.complete(entry)


@pytest.mark.attack("S14", "H09")
async def test_what_cannot_be_recorded_is_not_done(
    rest: Rest, backend: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = Trail(rest.core.store.audit)
    monkeypatch.setattr(rest.core.audit, "_entries", trail)
    trail.fails_to = "append"
    path = f"/v1/tenants/{TENANT}"
    for method, what, body in (
        ("PUT", f"{path}/users/unrecorded", {}),
        ("POST", f"{path}/tokens", {"user_id": "ann"}),
    ):
        answer = await backend.call(method, what, body)
        assert problem(answer) == (503, "store.unavailable")
        assert "token" not in answer.json()
    trail.fails_to = None
    assert (await backend.call("PUT", f"{path}/users/unrecorded")).status_code == 201


@pytest.mark.attack("H09")
async def test_an_act_without_a_recorded_end_is_unknown(
    rest: Rest, backend: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = Trail(rest.core.store.audit)
    monkeypatch.setattr(rest.core.audit, "_entries", trail)
    trail.fails_to = "complete"
    await backend.ok("PUT", f"/v1/tenants/{TENANT}/users/halfway")
    (act,) = await acts_of(backend, limit=1)
    assert told(act) == ("tenant_key", "put_user", "halfway", "unknown", None)


@pytest.mark.attack("H09")
async def test_a_failure_and_a_break_off_are_told_apart(rest: Rest) -> None:
    trail, intent = rest.core.audit, Intent("cli", None, "rotate_keys", "")
    with pytest.raises(ValueError, match="broken"):
        async with trail.act(intent):
            raise ValueError("broken")
    with pytest.raises(StoreUnavailable):
        async with trail.act(intent):
            raise StoreUnavailable
    acts = await acts_of(rest.root, None, 2)
    assert sorted(act["outcome"] for act in acts) == ["failed", "unknown"]
    assert {(act["actor"], act["tenant"]) for act in acts} == {("cli", None)}


async def test_the_beginning_of_a_trace_is_recorded(rest: Rest) -> None:
    backend = await rest.tenant("traced")
    await rest.user("ann", "traced")
    path = "/v1/tenants/traced/trace?user_id=ann"
    for _ in range(2):
        cursor = (await backend.ok("GET", path))["next_cursor"]
        await backend.ok("GET", f"{path}&cursor={cursor}")
    acts = [told(act) for act in await acts_of(backend, "traced") if act["action"] == "trace"]
    assert acts == [("tenant_key", "trace", "ann", "done", None)] * 2
