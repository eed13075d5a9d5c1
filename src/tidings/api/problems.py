# SPDX-License-Identifier: Apache-2.0
"""Converts refusals and errors to HTTP answers: `application/problem+json`, as in RFC 9457."""

import logging
from collections.abc import Iterable
from math import ceil
from typing import ClassVar, Final

import msgspec
from starlette.responses import Response

from tidings.model.file_refusals import OffsetConflict, RangeRefused
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import (
    Invalid,
    Refusal,
    SmsUnavailable,
    TooMany,
    Unauthenticated,
)
from tidings.wire.codes import RETRY_AFTER_SECONDS, http_status

log = logging.getLogger("tidings.api")

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "/docs#"
"""Prefix of a problem's type, which links to the explanation of its code."""


class FieldError(msgspec.Struct, frozen=True):
    """The mistake in one field. The pointer is empty if it concerns the whole body."""

    pointer: str
    message: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reason why a request was declined. Clients should depend on `code`, which is stable."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] | None = None


class HttpRefusal(Refusal):
    """A refusal for a reason that exists only in HTTP."""

    status: ClassVar[int]


class MethodNotAllowed(HttpRefusal):
    """The path exists, but not with this method."""

    code, title, status = "method.not_allowed", "The path does not support this method", 405

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        super().__init__()
        self.allowed = ", ".join(sorted(allowed))


class MediaTypeUnsupported(HttpRefusal):
    """The body is not JSON, or is compressed."""

    code, title, status = "request.media_type", "The body must be application/json", 415


class ServerFailed(HttpRefusal):
    """An unexpected error occurred in the server."""

    code, title, status = "server.failed", "The server failed", 500


def status_of(kind: type[Refusal]) -> int:
    """Return the HTTP status of a kind of refusal."""
    return kind.status if issubclass(kind, HttpRefusal) else http_status(kind())


def answer_refusal(refusal: Refusal) -> Response:
    """Return the HTTP answer for a refusal."""
    status = status_of(type(refusal))
    problem = Problem(
        type=TYPE_PREFIX + refusal.code,
        title=refusal.title,
        status=status,
        detail=refusal.detail,
        code=refusal.code,
        errors=_field_errors(refusal),
    )
    content = msgspec.json.encode(problem)
    return Response(content, status, _headers(refusal), MEDIA_TYPE)


def answer_failure(method: str, path: str, error: Exception) -> Response:
    """Log an unexpected error with its details, and return an answer without them."""
    log.error(
        "request failed",
        exc_info=error,
        extra={"action": "request_failed", "method": method, "route": path},
    )
    return answer_refusal(ServerFailed())


def _field_errors(refusal: Refusal) -> list[FieldError] | None:
    if isinstance(refusal, Invalid) and refusal.pointer is not None:
        return [FieldError(refusal.pointer, refusal.detail)]
    return None


def _headers(refusal: Refusal) -> dict[str, str]:
    if isinstance(refusal, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(refusal, OffsetConflict):
        return {"Upload-Offset": str(refusal.offset)}
    if isinstance(refusal, RangeRefused):
        return {"Content-Range": f"bytes */{refusal.size}"}
    if isinstance(refusal, MethodNotAllowed):
        return {"Allow": refusal.allowed}
    if isinstance(refusal, TooMany | SmsUnavailable):
        return {"Retry-After": str(max(1, ceil(refusal.retry_after_ms / SECOND_MS)))}
    if refusal.retryable:
        return {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return {}
