# SPDX-License-Identifier: Apache-2.0
"""Makes the REST application: the list of all operations, and the router that dispatches to
them."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec
from starlette.middleware import Middleware
from starlette.routing import Route, Router

from tidings.actions.explain.explaining import Explain
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.audit import AuditTrail, ReadAudit
from tidings.actions.inbox.posted import DeadLetterJobs
from tidings.actions.jobs.exports import PersonExports
from tidings.actions.push.verbs import PushVerbs
from tidings.actions.state import StateVerbs
from tidings.actions.verbs import (
    ChatVerbs,
    FileVerbs,
    InboxVerbs,
    JobVerbs,
    LoginVerbs,
    WebhookVerbs,
)
from tidings.api import (
    attachments,
    audit,
    auth,
    callers,
    chats,
    explain,
    health,
    inbox_states,
    inboxes,
    inspection,
    jobs,
    keys,
    members,
    messages,
    metrics,
    notifications,
    preferences,
    push,
    reading,
    reported_files,
    reports,
    safety,
    scheduled,
    search,
    sign_in,
    stack,
    state,
    tenant_posts,
    tenants,
    unread,
    unsubscribe,
    users,
    webhook_pulls,
    webhooks,
)
from tidings.api.access import Access, HeadersMiddleware, PreflightMiddleware
from tidings.api.audit import Recorder
from tidings.api.callers import Authenticating, Guard
from tidings.api.documents import make_document, make_socket_document
from tidings.api.endpoints import Endpoint, LargeBodies, OperationResponder, Responder
from tidings.api.health import METHODS, DocumentResponder, Page, PageResponder
from tidings.api.metrics import MetricsResponder, MetricsText
from tidings.api.operations import Operation
from tidings.api.sign_in import SignIn
from tidings.api.web_app import ASSET_PATH, WebApp, WebAppResponder
from tidings.ports.world import Chance

OPERATIONS: Final[tuple[Operation, ...]] = (
    *tenants.OPERATIONS,
    *users.OPERATIONS,
    *inspection.OPERATIONS,
    *tenant_posts.OPERATIONS,
    *auth.OPERATIONS,
    *chats.OPERATIONS,
    *members.OPERATIONS,
    *safety.OPERATIONS,
    *reports.OPERATIONS,
    *reported_files.OPERATIONS,
    *messages.OPERATIONS,
    *attachments.OPERATIONS,
    *scheduled.OPERATIONS,
    *reading.OPERATIONS,
    *search.OPERATIONS,
    *unread.OPERATIONS,
    *push.OPERATIONS,
    *notifications.OPERATIONS,
    *inboxes.OPERATIONS,
    *preferences.OPERATIONS,
    *unsubscribe.OPERATIONS,
    *inbox_states.OPERATIONS,
    *stack.OPERATIONS,
    *jobs.OPERATIONS,
    *webhooks.OPERATIONS,
    *webhook_pulls.OPERATIONS,
    *keys.OPERATIONS,
    *audit.OPERATIONS,
    *explain.OPERATIONS,
    *health.OPERATIONS,
    *metrics.OPERATIONS,
    *state.OPERATIONS,
)


def make_app(
    *,
    chat_verbs: ChatVerbs,
    inbox_verbs: InboxVerbs,
    identity_verbs: callers.IdentityVerbs,
    login_verbs: LoginVerbs,
    job_verbs: JobVerbs,
    file_verbs: FileVerbs,
    webhook_verbs: WebhookVerbs,
    push_verbs: PushVerbs,
    state_verbs: StateVerbs,
    dead_letters: DeadLetterJobs,
    exports: PersonExports,
    audit_trail: AuditTrail,
    audit_reading: ReadAudit,
    explaining: Explain,
    own_health: health.Health,
    metrics_text: MetricsText,
    chance: Chance,
    pages: Mapping[str, Page],
    web_app: WebApp,
    access: Access,
    ways_to_sign_in: SignIn,
) -> Router:
    """Return the application that calls these verbs and serves these pages."""
    services = {
        "verbs": chat_verbs,
        "inbox_verbs": inbox_verbs,
        "identity": identity_verbs,
        "logins": login_verbs,
        "job_verbs": job_verbs,
        "files": file_verbs,
        "webhooks": webhook_verbs,
        "push": push_verbs,
        "state": state_verbs,
        "dead_letters": dead_letters,
        "exports": exports,
        "audit_reading": audit_reading,
        "explaining": explaining,
        "refusals": explaining.refusals,
        "health": own_health,
        "metrics": metrics_text,
        "sign_in": ways_to_sign_in,
    }
    guard = Guard(identity_verbs.authenticate, access, identity_verbs.bans)
    large_bodies = LargeBodies()
    recorder = Recorder(audit_trail, chance)
    responders: dict[str, dict[str, Responder]] = {
        path: dict.fromkeys(METHODS, PageResponder(page, guard)) for path, page in pages.items()
    }
    for path, make in _DOCUMENTS.items():
        responders[path] = dict.fromkeys(METHODS, DocumentResponder(make, guard))
    for path in web_app.pages:
        responders[path] = dict.fromkeys(METHODS, WebAppResponder(web_app, guard, path))
    responders[ASSET_PATH] = dict.fromkeys(METHODS, WebAppResponder(web_app, guard))
    for operation in (*OPERATIONS, *sign_in.operations(ways_to_sign_in)):
        responder = OperationResponder(operation, guard, large_bodies, services, recorder)
        responders.setdefault(operation.path, {})[operation.method] = responder
    return _make_router(responders, chance, access, explaining.refusals)


def make_health_app(
    own_health: health.Health, metrics_text: MetricsText, root: Authenticating, chance: Chance
) -> Router:
    """Return the application of a process that answers only health checks, and shows root its
    metrics."""
    access, large_bodies = Access(), LargeBodies()
    guard = Guard(root, access)
    services = {"health": own_health, "metrics": metrics_text}
    responders: dict[str, dict[str, Responder]] = {
        operation.path: {
            operation.method: OperationResponder(operation, guard, large_bodies, services)
        }
        for operation in (*health.OPERATIONS, *metrics.OPERATIONS)
    }
    return _make_router(responders, chance, access)


def make_metrics_app(metrics_text: MetricsText, chance: Chance) -> Router:
    """Return the application of the listener for metrics, which has nothing else."""
    responder: Responder = MetricsResponder(metrics_text)
    return _make_router({metrics.PATH: {"GET": responder}}, chance, Access())


@cache
def _openapi() -> bytes:
    return msgspec.json.encode(make_document(OPERATIONS))


@cache
def _asyncapi() -> bytes:
    return msgspec.json.encode(make_socket_document())


_DOCUMENTS: Final = {"/openapi.json": _openapi, "/asyncapi.json": _asyncapi}


def _make_router(
    by_path: Mapping[str, Mapping[str, Responder]],
    chance: Chance,
    access: Access,
    refusals: RefusalJournal | None = None,
) -> Router:
    """Return Starlette's router, without its own redirects and error answers.

    The router uses the first route that matches. Routes are sorted as text, which puts fixed names
    before parameters, because a brace sorts after all letters.
    """
    endpoints = [Endpoint(path, by_path[path], refusals) for path in sorted(by_path)]
    routes = [Route(path, endpoint) for endpoint in endpoints for path in _forms(endpoint.path)]
    return Router(
        routes,
        redirect_slashes=False,
        default=Endpoint("", {}),
        middleware=[
            Middleware(HeadersMiddleware, chance, access),
            Middleware(PreflightMiddleware, access.allowed_origins),
        ],
    )


def _forms(path: str) -> set[str]:
    """Return a path with and without its final slash."""
    return {path, path.rstrip("/") or path}
