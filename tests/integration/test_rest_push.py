# SPDX-License-Identifier: Apache-2.0
"""Push over REST: the settings of a tenant, and the devices of its users."""

import asyncio
import hmac
import ipaddress
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from tests.integration.rest_world import Actor, Json, Rest, open_rest
from tests.support.engine import Settings
from tests.support.hook_server import HookServer, open_hook
from tests.support.push import FakePush, with_fake_providers
from tidings.actions.identity.caller import UserCaller
from tidings.model.ids import UserKey
from tidings.model.push import DEVICES_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "pushing"
SETTINGS = f"/v1/tenants/{TENANT}/push"
SECRET = "a secret of the tenant's webhook"
PHONE: Json = {"provider": "fcm", "token": "t1", "app": "news"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    tmp_path_factory: pytest.TempPathFactory, core_settings: Settings
) -> AsyncIterator[Rest]:
    allowed = {"outgoing_allow": (ipaddress.ip_network("127.0.0.1"),)}
    folder = tmp_path_factory.mktemp("rest")
    async with open_rest(folder, settings={**core_settings, **allowed}) as opened:
        yield opened


@pytest.fixture
def fake(rest: Rest) -> FakePush:
    return with_fake_providers(rest.core.push)


@pytest_asyncio.fixture(loop_scope="module")
async def hook() -> AsyncIterator[HookServer]:
    async with open_hook() as opened:
        yield opened


async def backend_with(rest: Rest, **settings: object) -> Actor:
    backend = await rest.tenant(TENANT)
    await backend.ok("PUT", SETTINGS, settings)
    return backend


async def test_a_tenant_without_settings_has_no_push(rest: Rest) -> None:
    backend = await rest.tenant("silent")
    ann = await rest.user("ann", "silent")
    shown = await backend.ok("GET", "/v1/tenants/silent/push")
    assert shown == {
        "content": "none", "webpush": None, "fcm": None, "apns": None, "webhook": None,
        "updated_at": None,
    }  # fmt: skip
    assert await ann.ok("GET", "/v1/push") == {"providers": [], "vapid_public_key": None}
    refused = await ann.refused("PUT", "/v1/me/devices/phone/push", PHONE)
    assert refused == (409, "push.off")


async def test_secrets_are_never_shown(rest: Rest, hook: HookServer) -> None:
    webhook = {"url": hook.url, "secret": SECRET}
    backend = await backend_with(rest, webhook=webhook, content="preview")

    shown = await backend.ok("GET", SETTINGS)

    assert (shown["content"], shown["webhook"], shown["fcm"]) == (
        "preview",
        {"url": hook.url},
        None,
    )
    # Without its secret, which stays as it is, the answer can be put again.
    again = await backend.ok("PUT", SETTINGS, {"webhook": shown["webhook"]})
    assert (again["content"], again["webhook"]) == ("none", {"url": hook.url})
    audit = await backend.ok("GET", f"/v1/tenants/{TENANT}/audit")
    assert SECRET not in str(audit)


async def test_a_made_secret_is_shown_once_and_checks_the_requests(
    rest: Rest, hook: HookServer
) -> None:
    backend = await backend_with(rest)  # without a webhook, and so without a stored secret
    await rest.user("ann", TENANT)

    made = (await backend.ok("PUT", SETTINGS, {"webhook": {"url": hook.url}}))["webhook"]

    assert made == {"url": hook.url, "secret": made["secret"]}
    assert made["secret"].startswith("whsec_")
    for method, body in (("GET", None), ("PUT", {"webhook": {"url": hook.url}})):
        assert (await backend.ok(method, SETTINGS, body))["webhook"] == {"url": hook.url}
    assert (await backend.ok("PUT", SETTINGS, {"webhook": made}))["webhook"] == {"url": hook.url}
    await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
    key, sent = b64decode(made["secret"].removeprefix("whsec_")), hook.headers[-1]
    signed = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + hook.bodies[-1]
    signature = b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert sent["webhook-signature"] == f"v1,{signature}"
    await backend_with(rest)
    again = await backend.ok("PUT", SETTINGS, {"webhook": {"url": hook.url}})
    assert again["webhook"]["secret"] != made["secret"]


@pytest.mark.parametrize(
    "webhook",
    [
        {"url": "https://example.com/", "secret": ""},
        {"url": "ftp://example.com", "secret": SECRET},
        {"url": "https://example.com/", "secret": "short"},
        {"url": "https://example.com/", "secret": 7},
        {"url": "https://example.com/", "secret": SECRET, "more": "x"},
        {},
    ],
)
async def test_malformed_credentials_are_refused(rest: Rest, webhook: Json) -> None:
    backend = await backend_with(rest)
    assert await backend.refused("PUT", SETTINGS, {"webhook": webhook}) == (400, "request.invalid")


async def test_a_test_notice_reaches_the_webhook(rest: Rest, hook: HookServer) -> None:
    backend = await backend_with(rest, webhook={"url": hook.url, "secret": SECRET})
    await rest.user("ann", TENANT)

    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})

    (sent,) = answer["data"]
    assert (sent["provider"], sent["device"], sent["outcome"]) == ("webhook", None, "sent")
    assert (hook.asked[-1]["user_id"], hook.asked[-1]["kind"]) == ("ann", "test")
    missing = await backend.refused("POST", f"{SETTINGS}/test", {"user_id": "nobody"})
    assert missing == (404, "user.not_found")


async def test_a_test_notice_tells_what_the_webhook_answered(rest: Rest, hook: HookServer) -> None:
    backend = await backend_with(rest, webhook={"url": hook.url, "secret": SECRET})
    await rest.user("ann", TENANT)
    hook.answer = {"verdict": "no matter"}
    hook.status = 403

    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})

    (sent,) = answer["data"]
    assert (sent["outcome"], sent["reason"]) == ("refused", "status 403")


async def test_devices_register_and_end(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"}, webpush={"key": "w"})
    ann = await rest.user("ann", TENANT)
    shown = await ann.ok("GET", "/v1/push")
    assert shown == {"providers": ["webpush", "fcm"], "vapid_public_key": "public w"}

    made = await ann.ok("PUT", "/v1/me/devices/phone/push", PHONE)
    assert (made["device"], made["provider"], made["app"]) == ("phone", "fcm", "news")
    devices = (await ann.ok("GET", "/v1/me/devices"))["data"]
    assert [(one["device"], one["push"], one["sessions"]) for one in devices] == [
        ("phone", "fcm", [])
    ]
    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann", "device": "phone"})
    assert [one["outcome"] for one in answer["data"]] == ["sent"]
    assert [(target.address, notice.kind) for target, notice in fake.sent] == [("t1", "test")]

    await ann.ok("DELETE", "/v1/me/devices/phone/push")
    await ann.ok("DELETE", "/v1/me/devices/phone/push")
    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
    assert answer == {"data": []}
    assert (await ann.ok("GET", "/v1/me/devices"))["data"] == []


async def test_an_unchanged_registration_is_not_written_again(rest: Rest, fake: FakePush) -> None:
    await backend_with(rest, fcm={"key": "k"}, webpush={"key": "w"})
    await rest.user("gus", TENANT)
    register, revocations = rest.core.push.register, rest.core.store.revocations
    user = UserKey(f"{TENANT}:gus")
    me = UserCaller(user=user, device=None, expires_at=0, session="s1")
    body: Json = {**PHONE, "token": "gus's", "subscription": {"p256dh": "p1", "auth": "a1"}}

    async def is_written(caller: UserCaller = me, **change: object) -> bool:
        head, [*before] = await revocations.head(), await rest.core.store.push.of(user)
        rest.clock.time += 1_000
        given = await register(caller, "phone", {**body, **change})
        assert [given] == await rest.core.store.push.of(user)
        is_same = [given] == before
        assert is_same is (await revocations.head() == head)
        return not is_same

    for changed in (
        {},
        {"subscription": {"p256dh": "p2", "auth": "a1"}},
        {"app": "chat"},
        {"token": "gus's other"},
        {"provider": "webpush"},
    ):
        assert await is_written(**changed), changed
        assert not await is_written(**changed), changed
    for session in ("s2", None):
        assert await is_written(msgspec.structs.replace(me, session=session))
        assert not await is_written(msgspec.structs.replace(me, session=session))


async def test_a_revoked_registration_is_written_again(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    phone, test = {**PHONE, "token": "hal's"}, {"user_id": "hal"}
    await (await rest.user("hal", TENANT)).ok("PUT", "/v1/me/devices/phone/push", phone)
    rest.clock.time += 1_000
    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/hal/sessions")
    rest.clock.time += 1_000

    await (await rest.user("hal", TENANT)).ok("PUT", "/v1/me/devices/phone/push", phone)

    answer = await backend.ok("POST", f"{SETTINGS}/test", test)
    assert [one["outcome"] for one in answer["data"]] == ["sent"]


async def test_what_is_no_target_is_refused(rest: Rest, fake: FakePush) -> None:
    await backend_with(rest, fcm={"key": "k"})
    ann = await rest.user("ann", TENANT)
    for body in ({"provider": "sms"}, {"provider": "webhook"}, {"provider": "fcm"}, {}):
        refused = await ann.refused("PUT", "/v1/me/devices/phone/push", body)
        assert refused == (400, "request.invalid"), body
    off = {**PHONE, "provider": "apns"}
    assert await ann.refused("PUT", "/v1/me/devices/phone/push", off) == (409, "push.off")


async def test_a_phone_changes_hands(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    ann, bob = [await rest.user(name, TENANT) for name in ("ann", "bob")]
    await ann.ok("PUT", "/v1/me/devices/phone/push", PHONE)
    before = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
    assert len(before["data"]) == 1, "her devices are cached from now on"
    await bob.ok("PUT", "/v1/me/devices/same-phone/push", PHONE)

    to_ann = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
    to_bob = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "bob"})

    assert (to_ann["data"], len(to_bob["data"])) == ([], 1)
    await bob.ok("DELETE", "/v1/me/devices/same-phone/push")


async def test_a_target_that_is_gone_is_removed(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    ann = await rest.user("ann", TENANT)
    await ann.ok("PUT", "/v1/me/devices/phone/push", {**PHONE, "token": "gone"})

    first = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
    second = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})

    assert [one["outcome"] for one in first["data"]] == ["gone"]
    assert second["data"] == []


async def test_only_what_was_not_sent_is_repeated(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    ann = await rest.user("ann", TENANT)
    for token, outcome, attempts in (("busy", "sent", 2), ("unclear", "unknown", 1)):
        await ann.ok("PUT", "/v1/me/devices/phone/push", {**PHONE, "token": token})
        answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "ann"})
        assert [one["outcome"] for one in answer["data"]] == [outcome]
        assert fake.attempts[token] == attempts
    await ann.ok("DELETE", "/v1/me/devices/phone/push")


async def test_a_deactivated_user_gets_nothing_more(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    dan = await rest.user("dan", TENANT)
    await dan.ok("PUT", "/v1/me/devices/phone/push", {**PHONE, "token": "dan's"})
    rest.clock.time += 1_000
    for deactivated in (True, False):
        await backend.ok("PUT", f"/v1/tenants/{TENANT}/users/dan", {"deactivated": deactivated})

    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "dan"})

    assert [one["outcome"] for one in answer["data"]] == ["refused"]
    answer = await backend.ok("POST", f"{SETTINGS}/test", {"user_id": "dan"})
    assert answer["data"] == []


async def test_erasure_ends_registrations(rest: Rest, fake: FakePush) -> None:
    backend = await backend_with(rest, fcm={"key": "k"})
    eve = await rest.user("eve", TENANT)
    await eve.ok("PUT", "/v1/me/devices/phone/push", {**PHONE, "token": "eve's"})

    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/eve/content")

    assert (await eve.ok("GET", "/v1/me/devices"))["data"] == []


async def test_a_user_registers_a_limited_number_of_devices(rest: Rest, fake: FakePush) -> None:
    await backend_with(rest, fcm={"key": "k"})
    fay = await rest.user("fay", TENANT)
    for number in range(DEVICES_MAX):
        body = {**PHONE, "token": f"fay's {number}"}
        await fay.ok("PUT", f"/v1/me/devices/phone{number}/push", body)

    one_more = {**PHONE, "token": "one more"}
    refused = await fay.refused("PUT", "/v1/me/devices/tablet/push", one_more)

    assert refused == (409, "limit.reached")


async def test_of_two_who_set_a_webhook_at_once_both_know_its_secret(
    rest: Rest, hook: HookServer
) -> None:
    backend = await rest.tenant("two-at-once")
    path, body = "/v1/tenants/two-at-once/push", {"webhook": {"url": hook.url}}
    answers = await asyncio.gather(*(backend.ok("PUT", path, body) for _ in range(2)))
    made = [one["webhook"]["secret"] for one in answers if "secret" in one["webhook"]]
    assert len(made) == 1, "the later one keeps the secret of the earlier one"
