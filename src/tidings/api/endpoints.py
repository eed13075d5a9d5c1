# SPDX-License-Identifier: Apache-2.0
"""Answers requests: finds the arguments of handlers, calls them, and limits large bodies.

A request is admitted, its body is read, its handler is called, and the result is encoded. Every
error on the way becomes an answer too. The names of a handler's parameters determine its arguments:

- a parameter of the path: its text;
- `asked`: the query;
- `caller`, `user`, `address`: the caller, its user, and the client's address;
- `chat`, `sequence_in_path`, `limit_in_path`: a chat id, sequence or limit in the path, parsed;
- `request_key`: the header `Idempotency-Key`;
- `request_id`: the header `X-Request-Id`, or an id that the server chose;
- `own_message`: the header `Tidings-After`, as chat and sequence;
- `is_local`: whether the request comes from a browser on this machine;
- `stream`: the bytes of the body, which the handler reads itself;
- `upload_offset`, `range_asked`: the header `Upload-Offset`, and `Range` with `If-Range`;
- `data`: the decoded body, which is read before the other arguments;
- any other name: a service that the application was made with, for example `verbs`.

Only a few large bodies are read at the same time. While a request waits for its turn, its body is
not read. Large bodies are decoded one at a time, because a decoded body takes more memory than its
bytes.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.caller import Caller, Root, TenantCaller, UserCaller, require_user
from tidings.api import fields
from tidings.api.access import known_request_id
from tidings.api.audit import Recorder
from tidings.api.callers import Guard
from tidings.api.operations import JSON, Answer, Audited, Operation, Streamed
from tidings.api.problems import MethodNotAllowed, answer_failure, answer_refusal
from tidings.api.requests import (
    Arriving,
    RangeAsked,
    check_host,
    check_media_type,
    check_path,
    is_local,
    read_body,
    read_query,
    read_value,
    upload_offset,
)
from tidings.logs.requests import current_requests, texts_of
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.ids import tenant_of
from tidings.model.refusals import Invalid, NotFound, RateLimited, Refusal
from tidings.tracing import spans
from tidings.tracing.spans import REQUEST, TRACEPARENT, Span, Tracer, in_span

_STATUS: Final = "http.response.status_code"

Source = Callable[[Request], object]
"""Reads the value of one argument from a request."""

_SOURCES: Final[Mapping[str, Source]] = {
    "caller": lambda request: request.user,
    "user": lambda request: require_user(request.user).user,
    "chat": lambda request: fields.chat(request.path_params["chat_id"]),
    "sequence_in_path": lambda request: fields.sequence_in_path(request.path_params["sequence"]),
    "limit_in_path": lambda request: fields.limit_in_path(request.path_params["limit"]),
    "request_key": lambda request: request.headers.get("Idempotency-Key"),
    "request_id": lambda request: known_request_id(request.scope),
    "own_message": lambda request: fields.own_message(request.headers.get("Tidings-After")),
    "is_local": is_local,
    "stream": Arriving,
    "upload_offset": lambda request: upload_offset(request.headers.get("Upload-Offset")),
    "range_asked": RangeAsked,
}

Responder = Callable[[Request], Awaitable[Response]]
"""Answers the requests with one method for one path, or raises a refusal."""


class LargeBodies:
    """Limits how many large bodies this process reads at the same time, per tenant and in total."""

    def __init__(self) -> None:
        self._in_all = asyncio.Semaphore(limits.LARGE_BODIES_MAX)
        self._tenants: dict[str, _Slots] = {}
        self._decoding = asyncio.Semaphore(1)

    def slot(self, scope: Scope, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Return a context for reading a body. It occupies a slot if the body may be large.

        Entering raises:
            RateLimited: Too many requests wait already, or waiting took too long.
        """
        if operation.body_bytes_max > limits.REQUEST_BODY_BYTES_MAX and _may_be_large(scope):
            return self._slot(scope["path_params"]["tenant"])
        return nullcontext()

    @asynccontextmanager
    async def turn_to_decode(self, body: bytes) -> AsyncIterator[None]:
        """For a large body, wait until no other large body is being decoded or handled.

        A small body does not wait.

        Raises:
            RateLimited: Waiting took too long.
        """
        if len(body) <= limits.REQUEST_BODY_BYTES_MAX:
            yield
            return
        async with AsyncExitStack() as stack:
            async with _not_too_long():
                await stack.enter_async_context(self._decoding)
            yield

    @asynccontextmanager
    async def _slot(self, tenant: str) -> AsyncIterator[None]:
        slots = self._tenants.setdefault(tenant, _Slots())
        if slots.users >= limits.TENANT_LARGE_BODIES_MAX + limits.LARGE_BODIES_WAITING_MAX:
            raise _too_many()
        slots.users += 1
        try:
            async with AsyncExitStack() as stack:
                await self._take(stack, slots)
                yield
        finally:
            slots.users -= 1
            if not slots.users:
                self._tenants.pop(tenant, None)

    async def _take(self, stack: AsyncExitStack, slots: "_Slots") -> None:
        async with _not_too_long():
            # The tenant's own slot comes first, so that no tenant fills the queue for the common
            # slots.
            await stack.enter_async_context(slots.free)
            await stack.enter_async_context(self._in_all)


class _Slots:
    """Limits how many large bodies of one tenant are read at the same time, one in each slot."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(limits.TENANT_LARGE_BODIES_MAX)
        self.users = 0
        """Requests that have a slot or wait for one."""


def _may_be_large(scope: Scope) -> bool:
    """Return True if the body may be large: its length is large, or unknown (a chunked body)."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return not value.isdigit() or int(value) > limits.REQUEST_BODY_BYTES_MAX
    return True


@asynccontextmanager
async def _not_too_long() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.LARGE_BODY_WAIT_MS_MAX / limits.SECOND_MS):
            yield
    except TimeoutError:
        raise _too_many() from None


def _too_many() -> RateLimited:
    return RateLimited(f"a tenant may send {limits.TENANT_LARGE_BODIES_MAX} large bodies at once")


class Arguments:
    """Reads the arguments of one operation's handler from a request, except the body."""

    def __init__(
        self, operation: Operation, services: Mapping[str, object], address: Source
    ) -> None:
        """Find the source of each parameter once.

        Args:
            operation: The operation of the handler.
            services: The services of the application, by name.
            address: Returns the address to which a client's rate limits apply.

        Raises:
            TypeError: A parameter has a name for which there is no source.
        """
        sources = {**_SOURCES, "address": address}
        for name in operation.path_parameters:
            sources[name] = _from_path(name)
        if operation.query is not None:
            sources["asked"] = _from_query(operation)
        self._fixed: dict[str, object] = {}
        self._sources: dict[str, Source] = {}
        for name in inspect.signature(operation.handler).parameters:
            if name in services:
                self._fixed[name] = services[name]
            elif name in sources:
                self._sources[name] = sources[name]
            elif name != "data":
                raise TypeError(f"{operation.name}: nothing is called {name}")

    def read(self, request: Request) -> dict[str, object]:
        """Return the arguments for a request.

        Raises:
            Refusal: A parameter of the path or the query is not valid.
        """
        read = {name: source(request) for name, source in self._sources.items()}
        return {**self._fixed, **read}


def _from_path(name: str) -> Source:
    return lambda request: request.path_params[name]


def _from_query(operation: Operation) -> Source:
    query = operation.query
    assert query is not None
    return lambda request: read_query(request.scope["query_string"], query)


class Endpoint:
    """ASGI application for one path, or, without responders, for all unknown paths."""

    def __init__(
        self,
        path: str,
        responders: Mapping[str, Responder],
        refusals: RefusalJournal | None = None,
    ) -> None:
        """Make the application for a path.

        `path` has its parameters in braces. `responders` are keyed by method. The journal keeps
        refusals by request id.
        """
        self.path = path
        self._responders = responders
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = monotonic()
        request = Request(scope, receive)
        span = None if spans.tracer is None else self._begin_span(request, spans.tracer)
        try:
            with nullcontext() if span is None else in_span(span):
                response = await self._respond(request)
        except Refusal as refusal:
            declared.refusals.counts[refusal.code, "rest"] += 1
            self._keep_refusal(request, refusal)
            response = answer_refusal(refusal)
        except Exception as error:
            response = answer_failure(request.method, self.path, error)
        of_status = declared.requests_seconds.of[self.path, str(response.status_code)]
        of_status.observe(monotonic() - began)
        if span is not None:
            status = response.status_code
            span.end({_STATUS: status}, error=str(status) if status >= 500 else None)
        await response(scope, receive, send)

    def _keep_refusal(self, request: Request, refusal: Refusal) -> None:
        if self._refusals is not None:
            caller: Caller | None = request.scope.get("user")
            user = caller.user if isinstance(caller, UserCaller) else None
            tenant = _tenant_of(caller, request)
            request_id, via = known_request_id(request.scope), f"{request.method} {self.path}"
            self._refusals.refused(request_id, refusal.code, via, tenant, user)

    def _begin_span(self, request: Request, tracer: Tracer) -> Span | None:
        route = self.path or "unknown"
        attributes = {
            "http.request.method": request.method,
            "http.route": route,
            REQUEST: texts_of(current_requests())[0],
        }
        trace = request.headers.get(TRACEPARENT)
        return tracer.begin(
            f"{request.method} {route}", trace, kind="server", attributes=attributes
        )

    async def _respond(self, request: Request) -> Response:
        check_host(request.headers)
        if not self._responders:
            raise NotFound
        check_path(request.scope, self.path)
        respond = self._responders.get(request.method)
        if respond is None:
            raise MethodNotAllowed(self._responders)
        return await respond(request)


def _tenant_of(caller: Caller | None, request: Request) -> str | None:
    match caller:
        case UserCaller(user):
            return tenant_of(user)
        case TenantCaller(tenant):
            return tenant
        case Root():
            tenant_in_path: str | None = request.path_params.get("tenant")
            return tenant_in_path
        case None:
            return None


class OperationResponder:
    """Answers the requests for one operation."""

    def __init__(
        self,
        operation: Operation,
        guard: Guard,
        large_bodies: LargeBodies,
        services: Mapping[str, object],
        recorder: Recorder | None = None,
    ) -> None:
        """Prepare the responder; only operations that are recorded need a recorder."""
        self._operation = operation
        self._guard = guard
        self._large_bodies = large_bodies
        self._arguments = Arguments(
            operation, services, lambda request: guard.address(request.scope)
        )
        self._call = partial(_call, operation)
        if isinstance(operation.audit, Audited):
            assert recorder is not None, "an administrative operation needs a recorder"
            self._call = partial(recorder.record, operation.audit, operation)

    async def __call__(self, request: Request) -> Response:
        """Admit the request, call the handler, and return its result as the answer."""
        operation = self._operation
        await self._guard.admit(request.scope, operation)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._large_bodies.slot(request.scope, operation))
            body = await self._body(request, stack)
            answer = await self._call(request, {**body, **self._arguments.read(request)})
        if not isinstance(answer, Answer):
            answer = Answer(answer, operation.statuses[0])
        if isinstance(answer.content, Streamed):
            streamed = answer.content
            return StreamingResponse(
                streamed.data, answer.status, answer.headers, streamed.media_type
            )
        if not operation.answers:
            return Response(status_code=answer.status, headers=answer.headers)
        is_json = operation.media_type == JSON
        content = msgspec.json.encode(answer.content) if is_json else answer.content
        return Response(content, answer.status, answer.headers, operation.media_type)

    async def _body(self, request: Request, stack: AsyncExitStack) -> dict[str, object]:
        """Return the decoded body as the argument `data`, or no argument if there is no body."""
        operation = self._operation
        if operation.body is None:
            return {}
        body = await read_body(request, operation.body_bytes_max)
        if not body:
            if operation.is_body_optional:
                return {}
            raise Invalid("the body is missing", "")
        check_media_type(request.headers)
        await stack.enter_async_context(self._large_bodies.turn_to_decode(body))
        charge = partial(self._guard.charge, request.scope, operation)
        return {"data": await read_value(body, operation.body, charge)}


async def _call(operation: Operation, _: Request, given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return await operation.handler(**given)
