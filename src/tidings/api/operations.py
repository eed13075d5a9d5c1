# SPDX-License-Identifier: Apache-2.0
"""One declaration per operation: it routes, says how to read, and is what the document tells."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

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
)

UNCOUNTED: Final = ("/healthz", "/readyz")
"""Whoever watches over the process is never told to come back later."""

Key = Literal["root", "tenant", "user", "user or tenant"]
Method = Literal["DELETE", "GET", "PATCH", "POST", "PUT"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a handler returns if the status or the headers depend on what happened."""

    content: T
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audited:
    """How an operation is recorded."""

    target: str | None = None
    """The field of the body or the answer that says what it is done to; None if the path does."""
    settings: tuple[str, ...] = ()
    """Of a body that may hold anything: what in it is worth recording, with dots between names."""
    is_frequent: bool = False
    """It changes nothing in the store, and may come thousands of times a second: it is recorded
    once, before its answer leaves."""


@dataclass(frozen=True, slots=True)
class NotAudited:
    """It is not recorded, for this reason."""

    reason: str


ALWAYS: Final = Audited()
"""What is recorded, with nothing particular about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What an operation takes and answers."""

    method: Method
    path: str
    """With its parameters in braces."""
    name: str
    tag: str
    summary: str
    description: str
    key: Key | None
    """The least that a caller has to show; None: nothing."""
    body: type | None
    """A Body; or, of what takes any JSON object, a plain dictionary."""
    body_bytes_max: int
    is_body_optional: bool
    query: type[Query] | None
    headers: tuple[str, ...]
    statuses: tuple[int, ...]
    answers: tuple[type, ...]
    """What a success answers with: one of these; empty for nothing."""
    refusals: frozenset[type[Refusal]]
    audit: Audited | NotAudited | None
    """How it is recorded, or why not; None for what is no administrative act."""
    cost: int | Callable[[Any], int]
    """What a request takes from its caller's bucket, or how its query tells."""
    body_cost: Callable[[Any], int] | None
    """How the body tells what a request costs, where only the body does."""
    handler: Callable[..., Awaitable[Any]]
    """What it does; each of its parameters is given by its name."""

    def cost_of(self, query_string: bytes) -> int:
        """What a request costs as far as its address tells."""
        if not callable(self.cost):
            return self.cost
        assert self.query is not None
        try:
            return self.cost(read_query(query_string, self.query))
        except Invalid:
            return 1  # it is refused, and that is cheap

    @property
    def path_parameters(self) -> list[str]:
        """The names in the path, in order."""
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
    audit: Audited | NotAudited = ALWAYS,
    cost: int | Callable[[Any], int] = 1,
    body_cost: Callable[[Any], int] | None = None,
) -> Callable[[Callable[..., Awaitable[Any]]], Operation]:
    """Make a function the handler of an operation.

    Its parameter `data` is the body, `asked` the query; `arguments.py` knows the other names. What
    it returns is the answer, with the first of `statuses` unless it is an `Answer`. `refusals` are
    those beyond the ones that follow from the rest. What takes a key of root or of a tenant and
    does not only read is recorded in the audit trail, unless `audit` says why not.
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
            body_bytes_max=body_bytes_max,
            is_body_optional=_has_default(function, "data"),
            query=hints.get("asked"),
            headers=headers,
            statuses=statuses,
            answers=_answers(hints["return"]),
            refusals=frozenset(refusals) | _implied(path, key, hints.get("data")),
            audit=None if key in (None, "user") or method == "GET" else audit,
            cost=cost,
            body_cost=body_cost,
            handler=function,
        )

    return declare


def _has_default(function: Callable[..., Any], name: str) -> bool:
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is not None and parameter.default is not inspect.Parameter.empty


def _answers(returned: Any) -> tuple[type, ...]:  # noqa: ANN401 - any annotation
    if get_origin(returned) is Answer:
        (returned,) = get_args(returned)
    if returned is type(None):
        return ()
    return get_args(returned) if isinstance(returned, UnionType) else (returned,)


def _implied(path: str, key: Key | None, body: type | None) -> set[type[Refusal]]:
    """The refusals that follow from what an operation takes."""
    implied: set[type[Refusal]] = {Invalid}
    if path not in UNCOUNTED:
        implied.add(RateLimited)
    if key is not None:
        implied |= {Unauthenticated, Forbidden, StoreUnavailable}
    if body is not None:
        implied |= {TooLarge, MediaTypeUnsupported}
    return implied
