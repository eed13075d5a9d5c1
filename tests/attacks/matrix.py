# SPDX-License-Identifier: Apache-2.0
"""Who is told what: every operation and every frame, for every kind of caller.

The world is one tenant with a group chat; its owner wrote the message in question. An operation or
a frame that has no row here fails the suite, and so does a row without one.
"""

from typing import Final, NamedTuple


class Answer(NamedTuple):
    """A status and, of a refusal, its code."""

    status: int
    code: str | None = None

    @property
    def is_success(self) -> bool:
        return self.code is None


Row = dict[str, Answer]
"""The answer for each caller."""

MEMBERS: Final = ("owner", "admin", "member")
OUTSIDERS: Final = ("former_member", "stranger")
"""Of the chat, but users of its tenant."""
FOREIGNER: Final = "user_of_another_tenant"
"""Of the same name as the owner."""
USERS: Final = (*MEMBERS, *OUTSIDERS, FOREIGNER)
KEYS: Final = ("tenant_key", "key_of_another_tenant", "root_key")
DEAD: Final = (
    "anonymous",
    "expired_token",  # the owner's
    "revoked_session",  # the owner's
    "deactivated_user",  # an admin of the chat
    "revoked_key",  # the tenant's
    "token_of_a_revoked_key",  # the owner's
    "key_of_a_suspended_tenant",
    "token_of_a_suspended_tenant",
)
CALLERS: Final = (*USERS, *KEYS, *DEAD)

UNKNOWN: Final = Answer(401, "auth.required")
FORBIDDEN: Final = Answer(403, "auth.forbidden")
NO_FILE: Final = Answer(404, "attachment.not_found")
NO_CHAT: Final = Answer(404, "chat.not_found")
NO_INBOX: Final = Answer(404, "inbox.not_found")
NO_INVITE: Final = Answer(404, "invite.not_found")
NO_MESSAGE: Final = Answer(404, "message.not_found")
NO_SCHEDULED: Final = Answer(404, "scheduled.not_found")
NO_SESSION: Final = Answer(404, "session.not_found")
NO_TENANT: Final = Answer(404, "tenant.not_found")
NO_USER: Final = Answer(404, "user.not_found")


def _all(callers: tuple[str, ...], answer: Answer) -> Row:
    return dict.fromkeys(callers, answer)


def public(status: int) -> Row:
    """For whoever asks, whatever they show."""
    return _all(CALLERS, Answer(status))


def users(status: int, *, foreigner: Answer | None = None) -> Row:
    """For every user, about their own things or the tenant's; no key acts in a user's name."""
    return {
        **_all(USERS, Answer(status)),
        FOREIGNER: foreigner or Answer(status),
        **_all(KEYS, FORBIDDEN),
        **_all(DEAD, UNKNOWN),
    }


def one_user(status: int, missing: Answer) -> Row:
    """For the user whose it is, the owner; to all others it is not there."""
    return {**users(status), **_all((*MEMBERS, *OUTSIDERS, FOREIGNER)[1:], missing)}


def chat(
    status: int,
    *,
    admin: Answer | None = None,
    member: Answer | None = None,
    missing: Answer = NO_CHAT,
) -> Row:
    """For the owner, and for admins and members unless it is said what they are told instead."""
    return {
        **users(status),
        "admin": admin or Answer(status),
        "member": member or Answer(status),
        **_all((*OUTSIDERS, FOREIGNER), missing),
    }


def tenant(status: int) -> Row:
    """For the tenant's backend and root. The tenant's users see that it is not for them."""
    return {
        **_all((*MEMBERS, *OUTSIDERS), FORBIDDEN),
        **_all((FOREIGNER, "key_of_another_tenant"), NO_TENANT),
        **_all(("tenant_key", "root_key"), Answer(status)),
        **_all(DEAD, UNKNOWN),
    }


def root(status: int) -> Row:
    """For root, about a tenant."""
    return {**tenant(status), "tenant_key": FORBIDDEN}


def root_of_all(status: int) -> Row:
    """For root, about the deployment: there is nothing that others might find."""
    return {**_all((*USERS, *KEYS), FORBIDDEN), **_all(DEAD, UNKNOWN), "root_key": Answer(status)}


OPERATIONS: Final[dict[str, Row]] = {
    # The deployment.
    "get_health": public(200),
    "get_readiness": public(200),
    "get_metrics": root_of_all(200),
    "get_state": root_of_all(200),
    "rotate_keys": root_of_all(200),
    "get_receipt_keys": public(200),
    "make_receipt_key": root_of_all(201),
    "list_jobs_aside": root_of_all(200),
    "replay_job": root_of_all(202),
    "drop_job": root_of_all(204),
    "list_audit": root_of_all(200),
    "list_tenant_audit": tenant(200),
    "explain": tenant(200),
    "trace": tenant(200),
    # Tenants, their keys and their users.
    "put_tenant": root(200),
    "delete_tenant": root(202),
    "list_tenants": root_of_all(200),
    "get_tenant": tenant(200),
    "list_tenant_keys": tenant(200),
    "make_tenant_key": root(201),
    "revoke_tenant_key": root(204),
    "list_signing_keys": tenant(200),
    "make_signing_key": tenant(201),
    "remove_signing_key": tenant(204),
    "get_published_keys": public(200),
    "get_token_issuer": tenant(200),
    "put_token_issuer": tenant(200),
    "remove_token_issuer": tenant(204),
    "make_token": tenant(201),
    "put_user": tenant(200),
    "list_users": tenant(200),
    "list_connections": tenant(200),
    "get_tenant_user": tenant(200),
    "list_user_sessions": tenant(200),
    "get_user_unread": tenant(200),
    "erase_user_content": tenant(200),
    "delete_user": tenant(202),
    "revoke_user_sessions": tenant(204),
    # Logging in, and sessions.
    "request_code": public(202),
    "open_session": public(201),
    "refresh_session": public(200),
    "list_sessions": users(200),
    "list_devices": users(200),
    "revoke_session": one_user(204, NO_SESSION),
    "revoke_own_sessions": users(204),
    # Users of themselves and of each other.
    "get_me": users(200),
    "patch_me": users(200),
    "get_user": users(200, foreigner=NO_USER),
    "list_profiles": users(200),
    "find_contacts": users(200),
    # Chats.
    "create_chat": users(201, foreigner=NO_USER),
    "list_chats": users(200),
    "get_chat": chat(200),
    "rename_chat": chat(200, member=FORBIDDEN),
    "mute_chat": chat(200),
    "delete_chat": {
        **chat(202, admin=FORBIDDEN, member=FORBIDDEN),
        "tenant_key": Answer(202),
        "key_of_another_tenant": NO_CHAT,
    },
    "list_members": chat(200),
    "put_member": chat(201, member=FORBIDDEN),
    "remove_member": chat(204, member=FORBIDDEN),
    "leave_chats": users(200),
    "list_blocks": users(200),
    "block_user": users(204, foreigner=NO_USER),
    "unblock_user": users(204),
    "report_message": {**chat(202), "owner": Answer(400, "request.invalid")},
    "report_user": users(202, foreigner=NO_USER),
    "list_reports": tenant(200),
    "unseal_report": tenant(200),
    "change_report": tenant(200),
    "list_invites": users(200),
    "accept_invite": chat(200, missing=NO_INVITE),
    "decline_invite": users(204),
    "list_tenant_chats": tenant(200),
    "inspect_chat": tenant(200),
    "inspect_members": tenant(200),
    "inspect_entries": tenant(200),
    "unseal_entries": tenant(200),
    "create_tenant_chat": tenant(201),
    "get_hook_secret": tenant(200),
    "post_tenant_message": tenant(201),
    "remove_member_as_tenant": tenant(204),
    "delete_chat_as_tenant": tenant(202),
    "change_settings": tenant(200),
    "redact_as_tenant": tenant(204),
    "get_job": tenant(200),
    "export_user": tenant(202),
    "download_export": tenant(200),
    "read_own_file": tenant(200),
    "read_reported_file": tenant(200),
    "post_message": chat(201),
    "list_scheduled": users(200),
    "change_scheduled": one_user(200, NO_SCHEDULED),
    "cancel_scheduled": one_user(204, NO_SCHEDULED),
    "list_messages": chat(200),
    "list_replies": chat(200),
    "list_mentions": users(200),
    "search_messages": chat(200),
    "list_entries": chat(200),
    "get_message": chat(200),
    "find_message": chat(200, missing=NO_MESSAGE),
    "edit_message": chat(200, admin=FORBIDDEN, member=FORBIDDEN),
    "redact_message": chat(204, member=FORBIDDEN),
    # An upload is its owner's; a file of a message is for the members of the chat.
    "create_upload": users(201),
    "upload_file": one_user(204, NO_FILE),
    "continue_upload": {**one_user(204, NO_FILE), "owner": Answer(400, "request.invalid")},
    "get_offset": one_user(200, NO_FILE),
    "put_thumbnail": {**one_user(204, NO_FILE), "owner": Answer(415, "attachment.type")},
    "read_attachment": chat(200),
    "read_thumbnail": chat(200),
    "link_attachment": chat(200),
    "follow_link": public(200),
    "list_reactions": chat(200),
    "add_reaction": chat(204),
    "remove_reaction": chat(204),
    "list_pins": chat(200),
    "pin_message": chat(204, member=FORBIDDEN),
    "unpin_message": chat(204, member=FORBIDDEN),
    "mark_receipt": chat(200),
    "list_receipts": chat(200),
    "list_message_receipts": chat(200),
    "mark_unread": chat(200),
    "hide_chat": chat(200),
    "get_unread": users(200),
    # Push.
    "show_push": users(200),
    "register_device": users(200),
    "end_device": users(204),
    "show_push_settings": tenant(200),
    "set_push_settings": tenant(200),
    "send_test_notice": tenant(200),
    # Webhooks.
    "put_webhook": tenant(200),
    "list_webhooks": tenant(200),
    "get_webhook": tenant(200),
    "delete_webhook": tenant(204),
    "rotate_webhook_secret": tenant(200),
    "list_webhook_deliveries": tenant(200),
    "replay_webhook_delivery": tenant(200),
    "replay_webhook": tenant(202),
    "test_webhook": tenant(200),
    "pull_webhook": tenant(200),
    # Inboxes, for the tenant and for its users.
    "get_settings": tenant(200),
    "put_settings": tenant(200),
    "list_tenant_inboxes": tenant(200),
    "get_inbox": tenant(200),
    "put_inbox": tenant(200),
    "delete_inbox": tenant(202),
    "post_notification": tenant(202),
    "list_posted": tenant(200),
    "get_notification": tenant(200),
    "redact_notification": tenant(204),
    "stack_post": tenant(202),
    "stack_redact": tenant(204),
    "list_inboxes": users(200),
    "list_notifications": users(200, foreigner=NO_INBOX),
    "mark_notifications_read": users(200, foreigner=NO_INBOX),
    "count_unread": users(200, foreigner=NO_INBOX),
    "get_preferences": users(200, foreigner=NO_INBOX),
    "put_preferences": users(200, foreigner=NO_INBOX),
    "show_unsubscribe": public(200),
    "unsubscribe": public(200),
    "change_notification_states": users(200, foreigner=NO_INBOX),
    "act_on_notification": users(200, foreigner=NO_INBOX),
    "stack_list": users(200, foreigner=NO_TENANT),
    "stack_mark_read": users(200, foreigner=NO_TENANT),
    "stack_count_unread": users(200, foreigner=NO_TENANT),
}

PAGES: Final[dict[str, Row]] = {
    path: public(200)
    for path in (
        "/",
        "/about",
        "/app.json",
        "/asyncapi.json",
        "/console",
        "/assets/{version}/{folder}/{name}",
        "/docs",
        "/manifest.webmanifest",
        "/openapi.json",
        "/sw.js",
        "/web/docs.js",
        "/web/elements.js",
        "/web/icon.svg",
        "/web/landing.js",
        "/web/schemas.js",
        "/web/tidings.css",
        "/web/trying.js",
    )
}

Outcome = str | int
"""The op of the answer, `nothing` if there is none and all is well, the code of a refusal, or the
code that the socket is closed with."""


def _frame(inside: str, outside: str) -> dict[str, Outcome]:
    """Who cannot open a socket cannot say anything on one either."""
    return {
        **dict.fromkeys(MEMBERS, inside),
        **dict.fromkeys((*OUTSIDERS, FOREIGNER), outside),
        **dict.fromkeys(KEYS, 4403),
        **dict.fromkeys(DEAD, 4401),
    }


FRAMES: Final[dict[str, dict[str, Outcome]]] = {
    "hello": _frame("welcome", "welcome"),
    "send": _frame("sent", "chat.not_found"),
    "received": _frame("nothing", "chat.not_found"),
    "read": _frame("nothing", "chat.not_found"),
    "typing": _frame("nothing", "chat.not_found"),
    "fetch": _frame("page", "chat.not_found"),
    "follow": _frame("nothing", "gone"),
    "away": _frame("nothing", "nothing"),
    "auth": _frame("nothing", "nothing"),
    "ping": _frame("pong", "pong"),
}
