# SPDX-License-Identifier: Apache-2.0
"""The REST application: all resources, one way in, one way to say no."""

from collections.abc import Mapping
from typing import Final

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.exceptions import HTTPException

from tidings.actions.auditing import AuditTrail
from tidings.actions.inbox.verbs import InboxVerbs
from tidings.actions.jobs_aside import LookAfterJobs
from tidings.actions.login_verbs import LoginVerbs
from tidings.actions.reading_audit import ReadAudit
from tidings.actions.verbs import ChatVerbs
from tidings.api import (
    audit,
    auth,
    callers,
    chats,
    contacts,
    health,
    history,
    inbox_settings,
    inboxes,
    invites,
    jobs,
    keys,
    members,
    messages,
    notifications,
    paths,
    problems,
    reactions,
    receipts,
    sessions,
    signing_keys,
    stack,
    tenant_chats,
    tenant_jobs,
    tenants,
    token_issuers,
    users,
)
from tidings.api.access import Access
from tidings.api.addresses import make_address
from tidings.api.asyncapi import make_socket_document
from tidings.api.auditing import make_recorder
from tidings.api.cors import answering_preflights
from tidings.api.headers import make_header_hook
from tidings.api.large_bodies import LargeBodies, giving_back
from tidings.api.openapi import make_document
from tidings.api.operations import Operation
from tidings.api.pages import Page, page_handlers
from tidings.api.requests import StrictRequest
from tidings.model import limits
from tidings.model.refusals import Refusal
from tidings.ports.world import Chance

HANDLERS: Final = (
    *tenants.HANDLERS,
    *users.HANDLERS,
    *auth.HANDLERS,
    *sessions.HANDLERS,
    *contacts.HANDLERS,
    *chats.HANDLERS,
    *members.HANDLERS,
    *tenant_chats.HANDLERS,
    *tenant_jobs.HANDLERS,
    *invites.HANDLERS,
    *messages.HANDLERS,
    *history.HANDLERS,
    *reactions.HANDLERS,
    *receipts.HANDLERS,
    *inbox_settings.HANDLERS,
    *notifications.HANDLERS,
    *inboxes.HANDLERS,
    *stack.HANDLERS,
    *keys.HANDLERS,
    *jobs.HANDLERS,
    *signing_keys.HANDLERS,
    *token_issuers.HANDLERS,
    *audit.HANDLERS,
    *health.HANDLERS,
)
OPERATIONS: Final[tuple[Operation, ...]] = tuple(one.opt["operation"] for one in HANDLERS)


def make_app(
    *,
    chat_verbs: ChatVerbs,
    inbox_verbs: InboxVerbs,
    identity_verbs: callers.IdentityVerbs,
    login_verbs: LoginVerbs,
    jobs_aside: LookAfterJobs,
    audit_trail: AuditTrail,
    audit_reading: ReadAudit,
    own_health: health.Health,
    chance: Chance,
    pages: Mapping[str, Page],
    access: Access,
) -> Litestar:
    """The application over these verbs, with these pages at their paths."""
    document = msgspec.json.encode(make_document(OPERATIONS))
    socket = msgspec.json.encode(make_socket_document())
    files = {
        **pages,
        "/openapi.json": ("application/json", document),
        "/asyncapi.json": ("application/json", socket),
    }
    guard = callers.make_guard(identity_verbs.authenticate, access, _methods(files), LargeBodies())
    app = Litestar(
        [*HANDLERS, *page_handlers(files)],
        guards=[guard],
        dependencies={
            "caller": Provide(callers.caller),
            "user": Provide(callers.user),
            "chat": Provide(paths.chat),
            "place": Provide(paths.place),
            "limit_in_path": Provide(paths.limit_in_path),
            "address": Provide(make_address(access.trusted_proxies)),
            "verbs": _always(chat_verbs),
            "inbox_verbs": _always(inbox_verbs),
            "identity": _always(identity_verbs),
            "logins": _always(login_verbs),
            "jobs_aside": _always(jobs_aside),
            "recorder": Provide(make_recorder(audit_trail, chance)),
            "audit_reading": _always(audit_reading),
            "health": _always(own_health),
        },
        exception_handlers={
            Refusal: problems.answer_refusal,
            HTTPException: problems.answer_http_exception,
            Exception: problems.answer_failure,
        },
        before_send=[make_header_hook(chance, access)],
        request_class=StrictRequest,
        request_max_body_size=limits.REQUEST_BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )
    # Inside the hook, which completes these answers too, and before a route is looked for.
    app.asgi_handler = answering_preflights(giving_back(app.asgi_handler), access.allowed_origins)
    return app


def make_health_app(own_health: health.Health, chance: Chance) -> Litestar:
    """The application of a process that answers no requests but those for its health."""
    return Litestar(
        list(health.HANDLERS),
        dependencies={"health": _always(own_health)},
        exception_handlers={
            Refusal: problems.answer_refusal,
            HTTPException: problems.answer_http_exception,
            Exception: problems.answer_failure,
        },
        before_send=[make_header_hook(chance)],
        request_class=StrictRequest,
        request_max_body_size=limits.REQUEST_BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )


def _methods(files: Mapping[str, Page]) -> dict[str, list[str]]:
    """The methods of each path."""
    methods = {path: ["GET", "HEAD"] for path in files}
    for one in OPERATIONS:
        methods.setdefault(one.path.rstrip("/"), []).append(one.method)
    return methods


def _always(value: object) -> Provide:
    async def provide() -> object:
        return value

    return Provide(provide)
