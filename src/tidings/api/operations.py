# SPDX-License-Identifier: Apache-2.0
"""Declares operations. A declaration determines an operation's route, request and documentation."""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import UnionType
from typing import Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from tidings.api.problems import MediaTypeUnsupported
from tidings.api.requests import Query, read_query
from tidings.model import limits
from tidings.model.refusals import (
    Forbidden,
    Invalid,
    RateLimited,
    Refusal,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    UserBanned,
)

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
UNCOUNTED: Final = ("/healthz", "/readyz")
"""Paths without rate limits: a health check must never be refused."""

Key = Literal["root", "tenant", "user", "user or tenant"]
Method = Literal["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"]
T = TypeVar("T")


class Answer(Generic[T], msgspec.Struct, frozen=True):
    """The result of a handler whose status or headers depend on the outcome."""

    content: T
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Streamed(msgspec.Struct, frozen=True):
    """The bytes of an answer that is sent as they are read."""

    data: AsyncIterator[memoryview]
    media_type: str


class Audited(msgspec.Struct, frozen=True):
    """Says how an operation is recorded in the audit trail."""

    target: str | None = None
    """Name of the field that contains the last part of the target: a field of the body, or else of
    the answer. None if the path contains the whole target."""
    settings: tuple[str, ...] = ()
    """Paths, with dots, of the fields to record if the body is an arbitrary object."""
    quoted: tuple[str, ...] = ()
    """Fields of the body to record with their values, which must not be secret."""
    continued_by: str | None = None
    """Field of the query with which a request continues an act that is recorded already."""
    is_frequent: bool = False
    """Whether the operation may be requested thousands of times a second. Such an operation changes
    nothing in the store, so it is recorded only once, after the call and before the answer."""


class NotAudited(msgspec.Struct, frozen=True):
    """Says why an operation is not recorded in the audit trail."""

    reason: str


ALWAYS: Final = Audited()
"""The default: the operation is recorded, and the path names its target."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one operation."""

    method: Method
    path: str
    """The path with its parameters in braces."""
    name: str
    tag: str
    summary: str
    description: str
    key: Key | None
    """The weakest credential that is allowed; None if none is needed."""
    body: type | None
    """A subclass of `Body`, or `dict` if the operation accepts any JSON object."""
    has_stream: bool
    """Whether the body is bytes, which the handler reads itself."""
    body_bytes_max: int
    is_body_optional: bool
    query: type[Query] | None
    headers: tuple[str, ...]
    statuses: tuple[int, ...]
    answers: tuple[type, ...]
    """The possible types of a successful answer; empty if the answer has no body."""
    refusals: frozenset[type[Refusal]]
    audit: Audited | NotAudited | None
    """How the operation is recorded, or why not; None if it is not administrative."""
    media_type: str
    """Media type of a successful answer; the answer is a text if this is not JSON."""
    cost: int | Callable[[Any], int]
    """Tokens that a request costs, or a function that computes them from the query."""
    body_cost: Callable[[Any], int] | None
    """Function that computes the part of the cost that depends on the body, if there is one."""
    is_banned: bool
    """Whether the operation is refused to banned users, because others would see what they do."""
    handler: Callable[..., Awaitable[Any]]
    """The function that handles a request; its arguments are passed by name."""

    def cost_of(self, query_string: bytes) -> int:
        """Return the part of a request's cost that depends on path and query."""
        if not callable(self.cost):
            return self.cost
        assert self.query is not None
        try:
            return self.cost(read_query(query_string, self.query))
        except Invalid:
            return 1  # an invalid query is refused, which is cheap

    @property
    def path_parameters(self) -> list[str]:
        """Return the names of the parameters in the path, in order."""
        return re.findall(r"{(\w+)}", self.path)


def operation(
    method: Method,
    path: str,
    *,
    tag: str,
    summary: str,
    key: Key | None = "user",
    statuses: tuple[int, ...] = (200,),
    headers: tuple[str, ...] = (),
    body_bytes_max: int = limits.REQUEST_BODY_BYTES_MAX,
    refusals: tuple[type[Refusal], ...] = (),
    audit: Audited | NotAudited | None = None,
    cost: int | Callable[[Any], int] = 1,
    media_type: str = JSON,
    body_cost: Callable[[Any], int] | None = None,
    is_banned: bool = False,
) -> Callable[[Callable[..., Awaitable[Any]]], Operation]:
    """Make a function the handler of an operation.

    The function's parameter `data` is the body, and `asked` the query; `endpoints.py` lists the
    other names. The function returns an `Answer`, or the content of an answer with the first of
    `statuses`. `refusals` lists only the refusals that path, key and body do not imply. An
    operation that needs a root or tenant key and is not a GET is recorded in the audit trail,
    unless `audit` says why not. A GET is recorded only if `audit` says so.
    """

    def declare(function: Callable[..., Awaitable[Any]]) -> Operation:
        hints = get_type_hints(function)
        return Operation(
            method=method,
            path=path,
            name=function.__name__,
            tag=tag,
            summary=summary,
            description=inspect.getdoc(function) or "",
            key=key,
            body=hints.get("data"),
            has_stream="stream" in hints,
            body_bytes_max=body_bytes_max,
            is_body_optional=_has_default(function, "data"),
            query=hints.get("asked"),
            headers=headers,
            statuses=statuses,
            answers=_answers(hints["return"]),
            refusals=frozenset(refusals)
            | _implied(path, key, hints.get("data"))
            | (frozenset({UserBanned}) if is_banned else frozenset()),
            audit=None if key in (None, "user") else audit or _usual_audit(method),
            cost=cost,
            media_type=media_type,
            body_cost=body_cost,
            is_banned=is_banned,
            handler=function,
        )

    return declare


def _usual_audit(method: Method) -> Audited | None:
    return None if method == "GET" else ALWAYS


def _has_default(function: Callable[..., Any], name: str) -> bool:
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is not None and parameter.default is not inspect.Parameter.empty


def _answers(returned: Any) -> tuple[type, ...]:  # noqa: ANN401 - any annotation
    if get_origin(returned) is Answer:
        (returned,) = get_args(returned)
    if returned in (type(None), Streamed):
        return ()
    return get_args(returned) if isinstance(returned, UnionType) else (returned,)


def _implied(path: str, key: Key | None, body: type | None) -> set[type[Refusal]]:
    """Return the refusals that path, key and body imply."""
    implied: set[type[Refusal]] = {Invalid}
    if path not in UNCOUNTED:
        implied.add(RateLimited)
    if key is not None:
        implied |= {Unauthenticated, Forbidden, StoreUnavailable}
    if body is not None:
        implied |= {TooLarge, MediaTypeUnsupported}
    return implied
