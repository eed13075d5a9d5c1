# SPDX-License-Identifier: Apache-2.0
"""The world that the matrix is asked of: a tenant of its own for each scene, with one of everything
that an operation can be about, so that no cell disturbs another.
"""

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from tests.attacks.matrix import CALLERS, DEAD, FOREIGNER, MEMBERS, OUTSIDERS
from tests.attacks.texts import Texts
from tests.integration.inbox_world import unsubscribe_link
from tests.integration.rest_world import NOWHERE, Actor, Json, Rest
from tests.support.phones import PHONE_LOGIN
from tests.support.web_push_service import Browser
from tidings.api.operations import Operation
from tidings.assembly.system import back_off
from tidings.delivery.rounds import TenantJobRunner
from tidings.model.ids import rfc3339, user_key
from tidings.model.limits import DAY_MS
from tidings.ports.bus import DeadLetter, Job

SHORT_SECONDS: Final = 60
EXPIRED_MS: Final = 100_000
"""Longer than a token of so many seconds lasts, leeway included."""
MESSAGE: Final = 3
"""The sequence of the owner's message, behind the chat's beginning and the admin's promotion."""
MISSING: Final[dict[str, str]] = {
    "attachment_id": NOWHERE,
    "chat_id": NOWHERE,
    "inbox": "nowhere",
    "message_id": f"{NOWHERE}.{MESSAGE}",
    "scheduled_id": "0" * 32,
    "session_id": NOWHERE,
    "tenant": "nowhere",
    "user_id": "nobody",
}
"""Names of what is not there."""

_numbers = itertools.count(1)


def phone_number(number: int) -> str:
    """A number that is nobody else's, nor one of a prefix with many others."""
    return f"+49151{number * 10_007 % 10**8:08}"


@dataclass
class Scene:
    """One tenant: what is there, and who may be calling."""

    rest: Rest
    texts: Texts
    number: int = field(default_factory=lambda: next(_numbers))
    names: dict[str, Any] = field(default_factory=dict)
    """What the parameters of a path are to be."""
    callers: dict[str, Actor] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        return f"acme-{self.number}"

    @property
    def path(self) -> str:
        return f"/v1/tenants/{self.tenant}"

    @property
    def phone_number(self) -> str:
        """The owner's."""
        return phone_number(self.number)

    @property
    def backend(self) -> Actor:
        return self.callers["tenant_key"]

    async def call(
        self, caller: str, one: Operation, body: object, **names: str
    ) -> tuple[int, dict[str, str], bytes]:
        """What an operation answers, apart from what differs from request to request."""
        path = one.path.format(**{**self.names, **names}) + QUERIES.get(one.name, "").format(
            **self.names
        )
        answer = await self.callers[caller].call(one.method, path, body)
        ignored = ("x-request-id", "ratelimit")
        headers = {name: text for name, text in answer.headers.items() if name not in ignored}
        return answer.status_code, headers, answer.content

    async def login_of(self, phone_number: str) -> Json:
        """What somebody with this phone logs in with."""
        whom = {"tenant": self.tenant, "phone_number": phone_number}
        await self.rest.nobody.ok("POST", "/v1/auth/codes", whom)
        return {**whom, "code": self.texts.code(phone_number), "device": f"d{next(_numbers)}"}

    async def log_in(self, phone_number: str) -> Json:
        """A session of somebody with this phone."""
        login = await self.login_of(phone_number)
        opened: Json = await self.rest.nobody.ok("POST", "/v1/auth/sessions", login)
        return opened

    async def token(self, user: str, backend: Actor | None = None, **more: Any) -> Actor:
        """Somebody with a token that the tenant's backend made."""
        wish = {"user_id": user, **more}
        made = await (backend or self.backend).ok("POST", f"{self.path}/tokens", wish)
        return Actor(self.rest.http, user, made["token"])


async def make_scene(
    rest: Rest, texts: Texts, one: Operation, callers: Collection[str] = CALLERS
) -> Scene:
    """A scene with all that this operation needs, and with these callers."""
    scene = Scene(rest, texts)
    scene.callers["tenant_key"] = await rest.tenant(scene.tenant)
    scene.callers["key_of_another_tenant"] = await rest.tenant("other")
    scene.callers["root_key"] = rest.root
    scene.callers["anonymous"] = rest.nobody
    for user in ("guest", "newcomer"):
        await scene.backend.ok("PUT", f"{scene.path}/users/{user}")
    await scene.backend.ok("PUT", f"{scene.path}/settings", PHONE_LOGIN)
    await scene.backend.ok("PUT", f"{scene.path}/users/owner", {"phone_number": scene.phone_number})
    if "expired_token" in callers:
        rest.clock.time -= EXPIRED_MS
        scene.callers["expired_token"] = await scene.token("owner", expires_in=SHORT_SECONDS)
        rest.clock.time += EXPIRED_MS
    for user in (*MEMBERS, *OUTSIDERS):
        if user in callers or user == "owner":
            scene.callers[user] = await scene.token(user)
    if FOREIGNER in callers:
        scene.callers[FOREIGNER] = await rest.user("owner", "other")
    scene.names |= {"tenant": scene.tenant, "user_id": "guest", "limit": 10, "device": "phone"}
    await _furnish(scene, one)
    if "chat_id" in scene.names:  # own messages move the receipt of the owner a little later
        await rest.core.receipts.settle(user_key(scene.tenant, "owner"), scene.names["chat_id"])
    if set(DEAD) <= set(callers):
        await _bury(scene)
    return scene


async def _furnish(scene: Scene, one: Operation) -> None:
    """Put there what the operation's path names, or what its name says it is about."""
    needed = set(one.path_parameters)
    if needed & {"chat_id", "message_id"} or one.name == "search_messages":
        await _furnish_chat(scene)
    if "unsubscribe" in one.name:
        scene.names["link"] = unsubscribe_link(scene.rest.core, scene.tenant)
    elif needed & {"attachment_id", "link"}:
        await _furnish_file(scene, one)
    if one.name == "put_member":
        scene.names["user_id"] = "newcomer"
    if needed & {"inbox", "notification_id"}:
        await _furnish_inbox(scene, one)
    if "key_id" in needed:
        made = await scene.rest.root.ok("POST", f"{scene.path}/keys")
        scene.names["key_id"] = made["key_id"]
    if "signing_key_id" in needed:
        before = await scene.backend.ok("GET", f"{scene.path}/signing-keys")
        await scene.backend.ok("POST", f"{scene.path}/signing-keys")
        scene.names["signing_key_id"] = before["data"][0]["key_id"]
    if "scheduled_id" in needed:
        await _furnish_scheduled(scene)
    if "session_id" in needed:
        session = await scene.log_in(scene.phone_number)
        scene.names["session_id"] = session["session_id"]
    if "aside_id" in needed:
        await _furnish_aside(scene)
    if one.name == "download_export":
        await _furnish_export(scene)
    elif "job_id" in needed:
        chat = await scene.callers["owner"].group("guest")
        deleted = await scene.backend.ok("DELETE", f"{scene.path}/chats/{chat}")
        scene.names["job_id"] = deleted["job"]
    if "report_id" in needed:
        at = "chats/{chat_id}/messages/{sequence}" if "attachment_id" in needed else "users/owner"
        path = f"/v1/{at}/report".format(**scene.names)
        made = await (await scene.token("guest")).ok("POST", path, _REPORT)
        scene.names["report_id"] = made["report_id"]
    if "webhook_id" in needed:
        await _furnish_webhook(scene)
    if one.name == "register_device":
        for key, of in (("tenant_key", scene.tenant), ("key_of_another_tenant", "other")):
            await scene.callers[key].ok("PUT", f"/v1/tenants/{of}/push", {"webpush": {}})
    if one.name in ("get_token_issuer", "remove_token_issuer"):
        await scene.backend.ok("PUT", f"{scene.path}/token-issuer", _issuer())


async def _furnish_webhook(scene: Scene) -> None:
    await _furnish_chat(scene)
    await scene.backend.ok("PUT", f"{scene.path}/webhooks/hook", _WEBHOOK)
    delivery_id = f"{scene.names['chat_id']}.{MESSAGE}"
    scene.names |= {"webhook_id": "hook", "delivery_id": delivery_id}


async def _furnish_export(scene: Scene) -> None:
    core = scene.rest.core
    started = await scene.backend.ok("GET", f"{scene.path}/users/owner/export")
    scene.names["job_id"] = started["job"]
    runner = TenantJobRunner(
        jobs=core.store.tenant_jobs,
        kinds=core.tenant_work.kinds,
        clock=core.clock,
        holder="scene",
        back_off=back_off,
    )
    while await runner.round():
        pass


async def _furnish_chat(scene: Scene) -> None:
    owner = scene.callers["owner"]
    others = ("admin", "member", "former_member", "guest", "deactivated_user")
    for user in others:
        if user not in (*scene.callers, "guest"):
            await scene.backend.ok("PUT", f"{scene.path}/users/{user}")
    chat = await owner.group(*others)
    path = f"/v1/chats/{chat}"
    await owner.ok("PUT", f"{path}/members/admin", {"role": "admin"})
    sent = await owner.send(chat, "m1")
    assert sent["sequence"] == MESSAGE
    await owner.ok("PUT", f"{path}/members/deactivated_user", {"role": "admin"})
    await owner.ok("DELETE", f"{path}/members/former_member")
    scene.names |= {
        "chat_id": chat,
        "emoji": "👍",
        "message_id": sent["message_id"],
        "sequence": MESSAGE,
    }


async def _furnish_file(scene: Scene, one: Operation) -> None:
    """An upload without bytes, or a file with a thumbnail in a message of the owner."""
    owner = scene.callers["owner"]
    file = {"name": "a.png", "content_type": "image/png", "size": 2}
    made = await owner.ok("POST", "/v1/attachments", file)
    scene.names["attachment_id"] = made["attachment_id"]
    if one.name in ("follow_link", "read_own_file", "read_reported_file"):
        await _furnish_chat(scene)
        scene.names["user_id"] = "owner"
    if "chat_id" not in scene.names:
        return
    url, kind = made["upload_url"], {"Content-Type": "image/png"}
    await owner.call("PUT", url, content=b"ab")
    await owner.call("PUT", f"{url}/thumbnail", content=b"a", headers=kind)
    chat = scene.names["chat_id"]
    sent = await owner.send(chat, "m3", attachments=[made["attachment_id"]])
    scene.names["sequence"] = sent["sequence"]
    path = f"/v1/chats/{chat}/messages/{sent['sequence']}/attachments/{made['attachment_id']}"
    link = await owner.ok("POST", f"{path}/link")
    scene.names["link"] = link["url"].rpartition("/")[2]


async def _furnish_inbox(scene: Scene, one: Operation) -> None:
    await scene.backend.ok("PUT", f"{scene.path}/inboxes/news", {"title": "News"})
    notice = INVITATION if one.name == "act_on_notification" else NOTICE
    posted = await scene.backend.ok("POST", f"{scene.path}/inboxes/news/notifications", notice)
    scene.names |= {"inbox": "news", "notification_id": posted["id"], "action": "ok"}


async def _furnish_scheduled(scene: Scene) -> None:
    owner = scene.callers["owner"]
    chat = await owner.group("guest")
    later = {"send_at": rfc3339(scene.rest.clock.time + DAY_MS)}
    body = {"client_message_id": "later", "content": "canary", **later}
    made = await owner.ok("POST", f"/v1/chats/{chat}/messages", body)
    scene.names["scheduled_id"] = made["scheduled_id"]


async def _furnish_aside(scene: Scene) -> None:
    job = Job(
        tenant=scene.tenant,
        inbox="news",
        notification_id=f"{scene.number:026}",
        number=0,
        users=("guest",),
        category=None,
        posted_at=scene.rest.clock.now(),
        expires_at=scene.rest.clock.now() + EXPIRED_MS,
    )
    aside = DeadLetter(
        aside_id=f"{scene.number:026}-0", job=job, reason="-", at=scene.rest.clock.now()
    )
    await scene.rest.core.store.dead_letters.keep(aside)
    scene.names["aside_id"] = aside.aside_id


async def _bury(scene: Scene) -> None:
    """Credentials that were good a moment ago."""
    root, http = scene.rest.root, scene.rest.http
    sleeper = await scene.token("deactivated_user")
    await scene.backend.ok("PUT", f"{scene.path}/users/{sleeper.name}", {"deactivated": True})
    session = await scene.log_in(scene.phone_number)
    owner = scene.callers["owner"]
    await owner.ok("DELETE", f"/v1/sessions/{session['session_id']}")
    made = await root.ok("POST", f"{scene.path}/keys")
    revoked = Actor(http, "revoked_key", made["key"])
    of_revoked = await scene.token("owner", revoked)
    await root.ok("DELETE", f"{scene.path}/keys/{made['key_id']}")
    shut = f"shut-{scene.number}"
    suspended, its_user = await scene.rest.tenant(shut), await scene.rest.user("owner", shut)
    await root.ok("PUT", f"/v1/tenants/{shut}", {"suspended": True})
    scene.callers |= {
        "deactivated_user": sleeper,
        "revoked_session": Actor(http, "owner", session["access_token"]),
        "revoked_key": revoked,
        "token_of_a_revoked_key": of_revoked,
        "key_of_a_suspended_tenant": suspended,
        "token_of_a_suspended_tenant": its_user,
    }


NOTICE: Final[Json] = {
    "audience": {"kind": "users", "uids": ["owner", "member"]},
    "message": {"title": "Hello", "body": ""},
}
_BUTTONS: Final[Json] = {"actions": [{"id": "ok", "label": "Join"}]}
INVITATION: Final[Json] = {**NOTICE, **_BUTTONS, "audience": {"kind": "everyone"}}
QUERIES: Final = {
    "get_published_keys": "?tenant={tenant}",
    "explain": f"?user_id=owner&message_id={NOWHERE}.{MESSAGE}",
    "trace": "?user_id=owner",
    "list_profiles": "?ids=owner,admin,nobody",
}


def _issuer() -> Json:
    key: Json = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate().public_key(), as_dict=True)
    return {"keys": [{**key, "kid": "k1"}]}


def _subscription() -> Json:
    return Browser.new().subscription("https://push.example.com/1")


_REPORT: Final = {"reason": "spam"}
_WEBHOOK: Final = {"url": None, "events": ["message.created"]}
_DAY: Final = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
BODIES: Final[dict[str, Callable[[Scene], Json]]] = {
    "put_tenant": lambda scene: {"name": "Renamed"},
    "put_token_issuer": lambda scene: _issuer(),
    "make_token": lambda scene: {"user_id": "guest"},
    "put_user": lambda scene: {"display_name": "Guest"},
    # Each from another number: the fourth code for one would have to wait.
    "request_code": lambda scene: {
        "tenant": scene.tenant,
        "phone_number": phone_number(next(_numbers)),
    },
    "patch_me": lambda scene: {"display_name": "Me"},
    "find_contacts": lambda scene: {"phone_numbers": [scene.phone_number]},
    "create_chat": lambda scene: {"type": "group", "name": "New", "members": ["guest"]},
    "rename_chat": lambda scene: {"name": "New"},
    "mute_chat": lambda scene: {"until": None},
    "change_settings": lambda scene: {"frozen": False, "slow_mode_seconds": 5},
    "put_member": lambda scene: {},
    "leave_chats": lambda scene: {"chats": [NOWHERE]},
    "search_messages": lambda scene: {"q": "canary", "chat_id": scene.names["chat_id"]},
    "post_message": lambda scene: {"client_message_id": "m2", "content": "new"},
    "change_scheduled": lambda scene: {"content": "changed"},
    "edit_message": lambda scene: {"content": "changed"},
    "create_upload": lambda scene: {"name": "a", "content_type": "text/plain", "size": 1},
    "link_attachment": lambda scene: {"thumbnail": True},
    "mark_receipt": lambda scene: {"read": MESSAGE},
    "mark_unread": lambda scene: {"from": None},
    "hide_chat": lambda scene: {"hidden": True},
    "report_message": lambda scene: _REPORT,
    "report_user": lambda scene: _REPORT,
    "unseal_report": lambda scene: {"reason": "a test"},
    "change_report": lambda scene: {"state": "dismissed"},
    "unseal_entries": lambda scene: {"reason": "a test"},
    "register_device": lambda scene: {"provider": "webpush", "subscription": _subscription()},
    "set_push_settings": lambda scene: {"content": "preview"},
    "send_test_notice": lambda scene: {"user_id": "guest"},
    "put_webhook": lambda scene: _WEBHOOK,
    "replay_webhook": lambda scene: _DAY,
    "pull_webhook": lambda scene: {},
    "create_tenant_chat": lambda scene: {"type": "group", "name": "New", "members": ["guest"]},
    "post_tenant_message": lambda scene: {"client_message_id": "m3", "content": "new"},
    "put_settings": lambda scene: {"theme": "dark"},
    "put_inbox": lambda scene: {"title": "Other news"},
    "post_notification": lambda scene: NOTICE,
    "stack_post": lambda scene: NOTICE,
    "stack_redact": lambda scene: {"id": scene.names["notification_id"]},
    "mark_notifications_read": lambda scene: {"ids": [scene.names["notification_id"]]},
    "put_preferences": lambda scene: {"categories": {"offers": {"push": False}}},
    "change_notification_states": lambda scene: {"before": "2026-01-01T00:00:00Z", "seen": True},
    "stack_mark_read": lambda scene: {"ids": [scene.names["notification_id"]]},
}


async def body_for(scene: Scene, one: Operation) -> Json | None:
    """What the operation is sent, in good order."""
    if one.name == "open_session":
        return await scene.login_of(phone_number(next(_numbers)))
    if one.name == "refresh_session":
        session = await scene.log_in(phone_number(next(_numbers)))
        return {"refresh_token": session["refresh_token"]}
    if one.has_stream:
        return {}
    return BODIES[one.name](scene) if one.body is not None else None
