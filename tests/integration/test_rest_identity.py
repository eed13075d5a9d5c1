# SPDX-License-Identifier: Apache-2.0
"""Tenants, their keys, tokens, users and profiles over REST: who may, and what becomes of it."""

import itertools
from pathlib import Path

import pytest

from tests.integration.rest_world import Actor, Rest, open_rest, problem
from tests.support.canary import canary
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation
from tidings.model import limits
from tidings.model.ids import rfc3339, user_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORBIDDEN = (403, "auth.forbidden")
NO_TENANT = (404, "tenant.not_found")


async def test_a_tenant_is_made_then_renamed(rest: Rest) -> None:
    made = await rest.root.call("PUT", "/v1/tenants/first", {"name": "First"})
    again = await rest.root.call("PUT", "/v1/tenants/first")
    renamed = await rest.root.call("PUT", "/v1/tenants/first", {"name": "Second"})
    assert (made.status_code, again.status_code, renamed.status_code) == (201, 200, 200)
    assert made.json() == again.json()
    assert renamed.json() == {**made.json(), "name": "Second"}
    assert made.json().keys() == {"tenant", "name", "created_at", "suspended_at", "quotas"}


@pytest.mark.attack("D12")
@pytest.mark.parametrize("tenant", ["-a", "A", "a" * 41, "a_b", "a%20", "a%00", "a:b", "%C3%A9"])
async def test_a_tenant_that_cannot_be_one_is_not_made(rest: Rest, tenant: str) -> None:
    answer = await rest.root.call("PUT", f"/v1/tenants/{tenant}", {})
    assert problem(answer) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/tenant"
    assert await rest.root.refused("POST", f"/v1/tenants/{tenant}/keys") == NO_TENANT


async def test_a_tenant_key_works_until_it_is_revoked(rest: Rest) -> None:
    await rest.root.ok("PUT", "/v1/tenants/keyed")
    answer = await rest.root.call("POST", "/v1/tenants/keyed/keys")
    assert answer.status_code == 201
    made = answer.json()
    assert made.keys() == {"key_id", "key"}
    backend = Actor(rest.http, "keyed", made["key"])
    await backend.ok("PUT", "/v1/tenants/keyed/users/ann")

    path = f"/v1/tenants/keyed/keys/{made['key_id']}"
    assert (await rest.root.call("DELETE", path)).status_code == 204
    assert await backend.refused("PUT", "/v1/tenants/keyed/users/ann") == (401, "auth.required")
    assert await rest.root.refused("DELETE", path) == (404, "key.not_found")


@pytest.mark.attack("D10")
async def test_a_key_of_one_tenant_is_not_revoked_through_another(rest: Rest) -> None:
    await rest.tenant("victim")
    made = await rest.root.ok("POST", "/v1/tenants/victim/keys")
    await rest.tenant("attacker")
    path = f"/v1/tenants/attacker/keys/{made['key_id']}"
    assert await rest.root.refused("DELETE", path) == (404, "key.not_found")
    victim = Actor(rest.http, "victim", made["key"])
    await victim.ok("PUT", "/v1/tenants/victim/users/ann")


@pytest.mark.attack("D11")
@pytest.mark.parametrize(
    ("method", "path"),
    [(one.method, one.path) for one in OPERATIONS if one.key == "root" and "{tenant}" in one.path],
)
async def test_root_routes_of_a_tenant(rest: Rest, method: str, path: str) -> None:
    own = path.format(tenant="acme", key_id="0" * 16)
    assert await (await rest.tenant()).refused(method, own) == FORBIDDEN
    assert await (await rest.user("alice")).refused(method, own) == FORBIDDEN
    assert await (await rest.tenant("other")).refused(method, own) == NO_TENANT
    assert await (await rest.user("alice", "other")).refused(method, own) == NO_TENANT


OWN_KEY = {"kid": "one", "kty": "OKP", "crv": "Ed25519", "x": "A" * 43}
LET_IN = {
    (404, "attachment.not_found"),
    (409, "limit.reached"),
    (404, "job.not_found"),
    (404, "key.not_found"),
    (404, "member.not_found"),
    (404, "message.not_found"),
    (404, "report.not_found"),
    (404, "webhook.not_found"),
}
"""What only those are told who may do a thing."""
_numbers = itertools.count(1)
MISSING = ("attachment", "inbox", "user", "chat", "job", "report", "webhook")
START = "2026-01-01T00:00:00Z"
TOLD = {"audience": {"kind": "everyone"}, "message": {"title": "Hello", "body": ""}}


def body_for(method: str, path: str, person: str, notification_id: str) -> object:
    """What each route of a tenant wants to be told."""
    ends = {
        "/tokens": {"user_id": person},
        "/settings": {},
        "/push": {},
        "/push/test": {"user_id": person},
        "/inboxes/{inbox}": {"title": "News"},
        "/notifications": TOLD,
        "/messages/post": TOLD,
        "/messages/redact": {"id": notification_id},
        "/token-issuer": {"keys": [OWN_KEY]},
        "/unseal": {"reason": "A report of a member"},
        "/chats": {"type": "group", "name": "Crew", "members": [person]},
        "/webhooks/{webhook_id}": {"url": None, "events": ["chat.created"]},
        "/webhooks/{webhook_id}/replay": {"from": START, "to": START},
        "/pull": {},
        "/chats/{chat_id}/messages": {"client_message_id": "m1", "content": "Hello"},
    }
    if method == "PATCH":
        ends |= {"/chats/{chat_id}": {"frozen": False}, "/reports/{report_id}": {"state": "open"}}
    is_bare = method == "GET" or (method == "DELETE" and path.endswith("/token-issuer"))
    found = (body for end, body in ends.items() if path.endswith(end) and not is_bare)
    return next(found, None)


@pytest.mark.attack("D10", "D11")
@pytest.mark.parametrize(
    ("method", "path"), [(one.method, one.path) for one in OPERATIONS if one.key == "tenant"]
)
async def test_tenant_routes(rest: Rest, method: str, path: str) -> None:
    tenant = await rest.tenant()
    number = next(_numbers)  # what a route deletes is gone for the others
    zoe, news = f"zoe-{number}", f"news-{number}"
    await tenant.ok("PUT", f"/v1/tenants/acme/users/{zoe}")
    await tenant.ok("PUT", "/v1/tenants/acme/settings", {})
    await tenant.ok("PUT", f"/v1/tenants/acme/inboxes/{news}", {"title": "News"})
    told = await tenant.ok("POST", f"/v1/tenants/acme/inboxes/{news}/notifications", TOLD)
    body = body_for(method, path, zoe, told["id"])
    chat = await (await rest.user("alice")).group(zoe)
    names = {
        "user_id": zoe,
        "chat_id": chat,
        "sequence": 1,
        "report_id": chat,
        "webhook_id": "nowhere",
        "delivery_id": f"{chat}.1",
        "inbox": news,
        "attachment_id": chat,
        "notification_id": told["id"],
        "signing_key_id": f"acme.{'0' * 16}",
        "job_id": f"delete-chat-{chat}",
    }
    queries = {"explain": f"?user_id={zoe}&message_id={chat}.1", "trace": f"?user_id={zoe}"}
    query = queries.get(path.rpartition("/")[2], "")
    own = path.format(tenant="acme", **names) + query
    nowhere = path.format(tenant="nowhere", **names) + query

    for may in (tenant, rest.root):
        answer = await may.call(method, own, body)
        assert answer.is_success or problem(answer) in LET_IN
    assert await (await rest.user("alice")).refused(method, own, body) == FORBIDDEN
    assert await (await rest.tenant("other")).refused(method, own, body) == NO_TENANT
    assert await (await rest.user("zoe", "other")).refused(method, own, body) == NO_TENANT
    assert await tenant.refused(method, nowhere, body) == NO_TENANT
    missing = {(404, f"{thing}.not_found") for thing in MISSING}
    assert await rest.root.refused(method, nowhere, body) in (NO_TENANT, *missing)


@pytest.mark.parametrize(
    "one", [one for one in OPERATIONS if one.key == "user"], ids=lambda one: one.name
)
async def test_no_key_acts_in_a_users_name(rest: Rest, one: Operation) -> None:
    names = dict.fromkeys(one.path_parameters, "1")
    path = one.path.format(**names)
    for key in (rest.root, await rest.tenant()):
        answer = await key.call(one.method, path)
        # The answer to a HEAD has no body.
        told = (answer.status_code, FORBIDDEN[1]) if one.method == "HEAD" else problem(answer)
        assert told == FORBIDDEN


async def test_the_master_key_is_roots_to_rotate(tmp_path: Path) -> None:
    async with open_rest(tmp_path) as rest:
        alice, _ = await rest.users("alice", "bob")
        chat = await alice.direct("bob")
        await alice.send(chat, "before")
        assert await (await rest.tenant()).refused("POST", "/v1/keys/rotate") == FORBIDDEN
        assert await alice.refused("POST", "/v1/keys/rotate") == FORBIDDEN

        rotated = await rest.root.ok("POST", "/v1/keys/rotate")

        assert rotated["rewrapped"] >= 3  # a data key, a signing key, the deployment's secrets
        again = await rest.root.ok("POST", "/v1/keys/rotate")
        assert again["master_key_id"] != rotated["master_key_id"]
        messages = await alice.ok("GET", f"/v1/chats/{chat}/messages")
        assert messages["data"][0]["content"] == canary("before")


async def test_a_master_key_from_outside_is_not_rotated_without_the_next(tmp_path: Path) -> None:
    async with open_rest(tmp_path, master_key=bytes(32)) as rest:
        assert await rest.root.refused("POST", "/v1/keys/rotate") == (409, "keys.refused")


async def test_erasing_takes_what_one_user_wrote_and_nothing_else(rest: Rest) -> None:
    backend = await rest.tenant()
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.direct("ben")
    await ann.send(chat, "a1")
    await ben.send(chat, "b1")

    erased = await backend.ok("DELETE", "/v1/tenants/acme/users/ann/content")

    assert erased == {"destroyed": 1}
    newest, older = (await ben.ok("GET", f"/v1/chats/{chat}/messages"))["data"]
    assert newest["content"] == canary("b1")
    assert older["erased"] is True
    assert "content" not in older
    await ann.send(chat, "a2")
    assert (await ben.ok("GET", f"/v1/chats/{chat}/messages"))["data"][0]["content"] == canary("a2")
    for stranger in ("nobody", "%00", "a" * 65):
        path = f"/v1/tenants/acme/users/{stranger}/content"
        assert await backend.refused("DELETE", path) == (404, "user.not_found")


async def test_a_user_is_made_then_changed(rest: Rest) -> None:
    backend = await rest.tenant()
    path = "/v1/tenants/acme/users/una"
    made = await backend.call("PUT", path, {"display_name": "Una", "phone_number": "+14155550123"})
    changed = await backend.call("PUT", path, {"display_name": "Una B."})
    assert (made.status_code, changed.status_code) == (201, 200)
    assert made.json().keys() == {
        "user_id", "display_name", "avatar_url", "metadata", "phone_number", "last_seen_at",
        "created_at", "updated_at", "email", "phone_verified", "deactivated", "banned_until",
    }  # fmt: skip
    assert changed.json() == {**made.json(), "display_name": "Una B."}


@pytest.mark.attack("D12", "D13")
@pytest.mark.parametrize("user_id", ["a:b", "a%20b", "a" * 65, "%C3%A9", "a%00", "a%23b", "a%0A"])
async def test_a_user_that_cannot_be_one_is_not_made(rest: Rest, user_id: str) -> None:
    backend = await rest.tenant()
    answer = await backend.call("PUT", f"/v1/tenants/acme/users/{user_id}", {})
    assert problem(answer) == (400, "request.invalid")
    assert await (await rest.user("alice")).refused("GET", f"/v1/users/{user_id}") == (
        404,
        "user.not_found",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("display_name", ""),
        ("display_name", "x" * (limits.NAME_CHARS_MAX + 1)),
        ("display_name", "a\x00b"),
        ("phone_number", "0123"),
        ("phone_number", "+1"),
        ("phone_number", "+14155550123\n"),
        ("avatar_url", "http://a.example/1.png"),
        ("email", "una"),
        ("metadata", "red"),
        ("metadata", {"text": "x" * limits.METADATA_BYTES_MAX}),
    ],
)
async def test_a_profile_field_out_of_form_is_refused(
    rest: Rest, field: str, value: object
) -> None:
    backend = await rest.tenant()
    answer = await backend.call("PUT", "/v1/tenants/acme/users/una", {field: value})
    assert problem(answer) == (400, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == f"/{field}"


@pytest.mark.attack("D18")
async def test_profiles(rest: Rest) -> None:
    backend = await rest.tenant()
    pia, other = await rest.users("pia", "other")
    await backend.ok("PUT", "/v1/tenants/acme/users/pia", {"phone_number": "+14155550199"})
    await rest.user("elsewhere", "other")

    avatar = "https://a.example/pia.png"
    wish = {"display_name": "Pia", "avatar_url": avatar, "metadata": {"team": ["red"]}}
    changed = await pia.ok("PATCH", "/v1/me", wish)

    assert changed == await pia.ok("GET", "/v1/me")
    assert wish.items() <= changed.items()
    assert (changed["phone_number"], changed["show_last_seen"]) == ("+14155550199", True)
    own = await pia.ok("GET", "/v1/users/pia")
    assert {**own, "show_last_seen": True} == changed
    seen = {**own, "phone_number": None}
    assert await other.ok("GET", "/v1/users/pia") == seen
    several = await other.ok("GET", "/v1/users?ids=nobody,pia,elsewhere,pia")
    assert several == {"data": [seen]}
    assert await pia.ok("PATCH", "/v1/me", {}) == changed
    for missing in ("nobody", "elsewhere"):
        assert await pia.refused("GET", f"/v1/users/{missing}") == (404, "user.not_found")
    for refused in ({"phone_number": "+14155550100"}, {"email": "pia@a.example"}):
        assert (await pia.refused("PATCH", "/v1/me", refused))[0] == 400
    told = await backend.ok("PUT", "/v1/tenants/acme/users/pia", {"email": "pia@a.example"})
    assert (told["email"], told["phone_verified"]) == ("pia@a.example", False)
    bare = await backend.ok(
        "PUT", "/v1/tenants/acme/users/pia", {"email": None, "avatar_url": None, "metadata": None}
    )
    assert (bare["email"], bare["avatar_url"], bare["metadata"]) == (None, None, {})
    assert bare["display_name"] == "Pia"


async def test_so_many_profiles_are_asked_for_by_name(rest: Rest) -> None:
    alice = await rest.user("alice")
    names = [f"n{number}" for number in range(limits.PROFILES_MAX + 1)]
    for refused in ("", "?ids=", f"?ids={','.join(names)}"):
        assert (await alice.refused("GET", f"/v1/users{refused}"))[0] == 400
    assert await alice.ok("GET", f"/v1/users?ids={','.join(names[1:])}") == {"data": []}


async def test_a_hidden_user_is_hidden_and_sees_nobody(rest: Rest) -> None:
    ida, jon = await rest.users("ida", "jon")
    chat = await ida.direct("jon")
    rest.core.store.users.seen(dict.fromkeys([user_key("acme", "ida"), user_key("acme", "jon")], 7))
    await ida.send(chat, "1")  # a write after those before it

    async def seen() -> list[str | None]:
        profiles = await ida.ok("GET", "/v1/users/jon"), await jon.ok("GET", "/v1/users/ida")
        return [profile["last_seen_at"] for profile in profiles]

    assert await seen() == [rfc3339(0)] * 2
    assert (await ida.ok("PATCH", "/v1/me", {"show_last_seen": False}))["show_last_seen"] is False
    assert await seen() == [None, None]
    await ida.ok("PATCH", "/v1/me", {"show_last_seen": True})
    assert await seen() == [rfc3339(0)] * 2


async def test_a_token_lasts_as_long_as_asked_for(rest: Rest) -> None:
    backend = await rest.tenant()
    wish = {"user_id": "tim", "device": "phone", "expires_in": 60}
    answer = await backend.call("POST", "/v1/tenants/acme/tokens", wish)
    assert answer.status_code == 201
    assert answer.json().keys() == {"token", "expires_at"}
    tim = Actor(rest.http, "tim", answer.json()["token"])
    assert (await tim.ok("GET", "/v1/me"))["user_id"] == "tim"

    rest.clock.time += (60 + limits.TOKEN_LEEWAY_SECONDS) * 1_000
    assert await tim.refused("GET", "/v1/me") == (401, "auth.required")


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"user_id": "a b"},
        {"user_id": "tim\n"},
        {"user_id": "tim", "device": ""},
        {"user_id": "tim", "expires_in": 0},
        {"user_id": "tim", "expires_in": limits.TOKEN_SECONDS_MAX + 1},
        {"user_id": "tim", "expires_in": "60"},
        {"user_id": "tim", "tenant": "other"},
    ],
)
async def test_a_token_is_asked_for_in_form(rest: Rest, wish: dict[str, object]) -> None:
    backend = await rest.tenant()
    assert await backend.refused("POST", "/v1/tenants/acme/tokens", wish) == (
        400,
        "request.invalid",
    )
