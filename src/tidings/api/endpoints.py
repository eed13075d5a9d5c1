# SPDX-License-Identifier: Apache-2.0
"""The way from a request to its answer: the application of a path, the responder of an operation.

A request is admitted, its body is read, its handler is called, and the result is encoded. Every
error on the way becomes an answer, too.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidings.api.arguments import Arguments
from tidings.api.auditing import Recorder
from tidings.api.callers import Guard
from tidings.api.large_bodies import LargeBodies
from tidings.api.operations import Answer, Audited, Operation
from tidings.api.problems import MethodNotAllowed, answer_failure, answer_refusal
from tidings.api.requests import check_host, check_media_type, check_path, read_body, read_value
from tidings.model.refusals import Invalid, NotFound, Refusal

JSON: Final = "application/json"
NO_CONTENT: Final = 204

Responder = Callable[[Request], Awaitable[Response]]
"""Answers the requests with one method for one path, or raises a refusal."""


class Endpoint:
    """ASGI application of one path; without methods, the application of all unknown paths."""

    def __init__(self, path: str, responders: Mapping[str, Responder]) -> None:
        """Answer requests for a path by their method; parameters of the path are in braces."""
        self.path = path
        self._responders = responders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except Refusal as refusal:
            response = answer_refusal(refusal)
        except Exception as error:
            response = answer_failure(request.method, self.path, error)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        check_host(request.headers)
        if not self._responders:
            raise NotFound
        check_path(request.scope, self.path)
        respond = self._responders.get(request.method)
        if respond is None:
            raise MethodNotAllowed(self._responders)
        return await respond(request)


class OperationResponder:
    """Responder for the requests of one operation."""

    def __init__(
        self,
        operation: Operation,
        guard: Guard,
        large_bodies: LargeBodies,
        services: Mapping[str, object],
        recorder: Recorder | None = None,
    ) -> None:
        """Prepare the responder; the recorder may be absent for operations that are not
        recorded."""
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
        """Admit the request, call the handler, and answer with what it returns."""
        operation = self._operation
        await self._guard.admit(request.scope, operation)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._large_bodies.slot(request.scope, operation))
            body = await self._body(request, stack)
            answer = await self._call(request, {**body, **self._arguments.read(request)})
        if not isinstance(answer, Answer):
            answer = Answer(answer, operation.statuses[0])
        if answer.status == NO_CONTENT:
            return Response(status_code=NO_CONTENT, headers=answer.headers)
        content = msgspec.json.encode(answer.content)
        return Response(content, answer.status, answer.headers, JSON)

    async def _body(self, request: Request, stack: AsyncExitStack) -> dict[str, object]:
        """Return the argument for the body, if the handler takes one and the request has one."""
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
