# SPDX-License-Identifier: Apache-2.0
"""Every administrative operation is recorded: with a key of root or a tenant, and not only reading.

It is the declaration of the operation that has it recorded, so that nobody can forget to: who has a
reason not to has to say so there.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from tidings.actions.auditing import AuditTrail, Intent, actor_of, is_certain
from tidings.actions.identity import Caller, Root
from tidings.actions.jobs_aside import ASIDE
from tidings.actions.signing_keys import KEY_ID
from tidings.api.request_ids import request_id
from tidings.model.refusals import Refusal
from tidings.ports.world import Chance

_NAME: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
_WORD: Final = re.compile(r"[a-z]{1,10}")
_FORMS: Final = {
    "aside_id": ASIDE,
    "key_id": re.compile(r"[0-9a-f]{16}|" + KEY_ID.pattern),
    "signing_key_id": KEY_ID,
}
"""What a target has to look like: somebody may have put a whole key where its id belongs."""


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


class Recorder:
    """One request, for whoever records it."""

    def __init__(
        self, request: Request[Any, Any, State], trail: AuditTrail, request_id: str
    ) -> None:
        self._request = request
        self._trail = trail
        self._request_id = request_id

    async def record(
        self, audited: Audited, function: Callable[..., Any], given: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - what the handler answers
        """Call the handler, and record it unless the caller is refused in any case."""
        request = self._request
        operation = request.route_handler.opt["operation"]
        caller: Caller = request.user
        actor = actor_of(caller)
        if actor is None or (operation.key == "root" and not isinstance(caller, Root)):
            return await function(**given)
        path = request.path_params
        body = given.get("data")
        intent = Intent(*actor, operation.name, _tenant(path), _said(body, audited))
        names = [name for name in operation.path_parameters if name != "tenant"]
        target = _target([_part(name, path[name]) for name in names], audited.target, body)
        if audited.is_frequent:
            return await self._record_after(intent, target, function, given)
        async with self._trail.act(intent, target, self._request_id) as recorded:
            answer = await function(**given)
            recorded.target = target or _target([], audited.target, _content(answer))
        return answer

    async def _record_after(
        self,
        intent: Intent,
        target: str | None,
        function: Callable[..., Any],
        given: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401
        about = {"target": target, "request_id": self._request_id}
        try:
            answer = await function(**given)
        except Refusal as refusal:
            if is_certain(refusal):
                await self._trail.add(intent, "refused", refusal.code, **about)
            raise
        await self._trail.add(intent, "done", **about)
        return answer


def make_recorder(
    trail: AuditTrail, chance: Chance
) -> Callable[[Request[Any, Any, State]], Awaitable[Recorder]]:
    """A provider of what records a request."""

    async def recorder(request: Request[Any, Any, State]) -> Recorder:
        return Recorder(request, trail, request_id(request.scope, chance))

    return recorder


def recorded(audited: Audited, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same handler, with everything that it does recorded."""

    @wraps(function)
    async def call(recorder: Recorder, **given: Any) -> Any:  # noqa: ANN401
        return await recorder.record(audited, function, given)

    own = inspect.Parameter(
        "recorder",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=NamedDependency[SkipValidation[Recorder]],
    )
    signature = inspect.signature(function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), own]
    )
    call.__annotations__ = {**function.__annotations__, "recorder": own.annotation}
    return call


def _tenant(path: Mapping[str, Any]) -> str:
    tenant = path.get("tenant", "")
    return tenant if _NAME.fullmatch(tenant) else ""


def _target(path: list[str], name: str | None, said: object) -> str | None:
    """What it is done to, from the outside in; None if nothing says so, or not yet."""
    value = getattr(said, name, None) if name else None
    own = [_part(name, value)] if name and isinstance(value, str) else []
    return "/".join([*path, *own]) or None


def _part(name: str, value: str) -> str:
    return value if _FORMS.get(name, _NAME).fullmatch(value) else "?"


def _said(body: object, audited: Audited) -> tuple[str, ...]:
    if not isinstance(body, dict):
        return _fields(body)
    found = ((name, _within(body, name)) for name in audited.settings)
    return tuple(f"{name}={str(value).lower()}" for name, value in found if _is_plain(value))


def _within(body: object, name: str) -> object:
    for part in name.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _is_plain(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and bool(_WORD.fullmatch(value)))


def _fields(body: object) -> tuple[str, ...]:
    """What a body says: names, and no values but true and false, which are never secret."""
    if not isinstance(body, msgspec.Struct):
        return ()
    kind = type(body)
    defaults = dict(zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1], strict=False))
    said = []
    for name in kind.__struct_fields__:
        value = getattr(body, name)
        if name in defaults and value == defaults[name]:
            continue
        said.append(f"{name}={str(value).lower()}" if isinstance(value, bool) else name)
    return tuple(said)


def _content(answer: object) -> object:
    return answer.content if isinstance(answer, Response) else answer
