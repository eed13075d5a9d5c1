# SPDX-License-Identifier: Apache-2.0
"""Makes the OpenAPI document of the REST API, and the AsyncAPI document of the socket.

We do not use a framework's generator: its schemas do not say that unknown fields are refused, and
it cannot describe an optional body or the headers of a refusal.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

import msgspec

from tidings import __version__
from tidings.api import fields
from tidings.api.operations import BINARY, Key, Operation
from tidings.api.problems import (
    MEDIA_TYPE,
    MethodNotAllowed,
    Problem,
    ServerFailed,
    status_of,
)
from tidings.model import limits
from tidings.model.ids import MESSAGE
from tidings.model.refusals import NotFound, Refusal
from tidings.wire import frames
from tidings.wire.inbox_frames import MarkedFrame
from tidings.wire.scheduled import ScheduledFailedFrame

_FROM_CLIENT: Final = get_args(frames.ClientFrame)
FROM_SERVER: Final = (
    frames.Welcome,
    frames.EntryFrame,
    frames.Live,
    frames.SentFrame,
    frames.Refused,
    frames.PageFrame,
    frames.ReceiptFrame,
    frames.TypingNotice,
    frames.Presence,
    frames.UnreadFrame,
    frames.UnreadTotalFrame,
    frames.ChatChangedFrame,
    ScheduledFailedFrame,
    MarkedFrame,
    frames.InvitedFrame,
    frames.ProfileFrame,
    frames.InboxUnread,
    frames.InboxMissed,
    frames.NotificationFrame,
    frames.RetractedFrame,
    frames.HeadsFrame,
    frames.ErasedFrame,
    frames.AllErased,
    frames.Resync,
    frames.GoneFrame,
    frames.Bye,
    frames.Pong,
)
_SOCKET_SCHEMA: Final = "#/components/schemas/{name}"

Json = dict[str, Any]

REF_TEMPLATE: Final = "#/components/schemas/{name}"

_BEARER: Final = {"type": "http", "scheme": "bearer"}
_SECURITY_SCHEMES: Final = {
    "rootKey": {**_BEARER, "description": "The root key of the deployment: access to everything."},
    "tenantKey": {
        **_BEARER,
        "description": "A tenant key (`sk_…`): access to everything of one tenant.",
    },
    "userToken": {
        **_BEARER,
        "bearerFormat": "JWT",
        "description": "A user token: access as one user of one tenant.",
    },
}
_KEYS: Final[dict[Key | None, list[dict[str, list[str]]]]] = {
    None: [],
    "root": [{"rootKey": []}],
    "tenant": [{"tenantKey": []}, {"rootKey": []}],
    "user": [{"userToken": []}],
    "user or tenant": [{"userToken": []}, {"tenantKey": []}],
}
_REQUEST_HEADERS: Final[dict[str, Json]] = {
    "Idempotency-Key": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.REQUEST_KEY_CHARS_MAX,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
    },
    "Tidings-After": {"type": "string", "pattern": f"^{MESSAGE.pattern}$"},
    "Upload-Offset": {"type": "integer", "minimum": 0},
    "Range": {"type": "string", "examples": ["bytes=0-1023"]},
    "If-Range": {"type": "string"},
}
ANY_TYPE: Final = "*/*"
_BYTES: Final[Json] = {"schema": {"type": "string", "format": "binary"}}
_RETRY_AFTER: Final = {"schema": {"type": "string", "pattern": "^[0-9]+$"}}
_ANSWER_HEADERS: Final[dict[int, Json]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string", "const": "Bearer"}}},
    429: {"Retry-After": _RETRY_AFTER},
    503: {"Retry-After": _RETRY_AFTER},
}
_ANSWERS: Final = {
    200: "Done.",
    201: "Created.",
    202: "Accepted; processing continues in the background.",
    204: "Done; the answer has no body.",
    206: "A part of the file.",
}


def make_socket_document() -> Json:
    """Return the AsyncAPI document of the socket."""
    kinds = (*_FROM_CLIENT, *FROM_SERVER)
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_SOCKET_SCHEMA)
    messages = {kind.__name__: _message(kind) for kind in kinds}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidings socket",
            "version": __version__,
            "description": "Text frames, one JSON object each, at most 64 KiB (hello 128 KiB), "
            "no compression.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "socket": {
                "address": "/v1/ws",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET"}},
            }
        },
        "operations": {
            "fromClient": _socket_operation("receive", _FROM_CLIENT, "Frames from the client."),
            "toClient": _socket_operation("send", FROM_SERVER, "Frames from the server."),
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def _message(kind: type) -> Json:
    return {
        "name": kind.__struct_config__.tag,  # type: ignore[attr-defined]
        "summary": (kind.__doc__ or "").strip(),
        "payload": {"$ref": _SOCKET_SCHEMA.format(name=kind.__name__)},
    }


def _socket_operation(action: str, kinds: tuple[type, ...], summary: str) -> Json:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/socket"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/socket/messages/{kind.__name__}"} for kind in kinds],
    }


def make_document(operations: Sequence[Operation]) -> Json:
    """Return the OpenAPI document for these operations."""
    schemas = _Schemas(operations)
    by_path: dict[str, Json] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, schemas
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidings",
            "version": __version__,
            "description": "A messaging backend to put into your own product.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": by_path,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY_SCHEMES},
        "x-refusals": _catalogue(operations),
    }


class _Schemas:
    """Schemas of all types that the operations use."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        bodies = [operation.body for operation in operations if operation.body]
        answers = [answer for operation in operations for answer in operation.answers]
        queries = [operation.query for operation in operations if operation.query]
        self._refs, self.components = _schemas_of([*bodies, *answers, Problem])
        self._query_refs, self._query_components = _schemas_of(queries)

    def ref(self, *kinds: type) -> Json:
        """Return a reference to the schema of a type, or a schema that allows any of several
        types."""
        refs = [self._refs[kind] for kind in kinds]
        return refs[0] if len(refs) == 1 else {"anyOf": refs}

    def query_parameters(self, query: type) -> list[Json]:
        """Return the parameters of a query."""
        name = self._query_refs[query]["$ref"].rpartition("/")[2]
        properties = self._query_components[name]["properties"]
        return [
            {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
            for name, schema in properties.items()
        ]


def _schemas_of(kinds: Iterable[type]) -> tuple[dict[type, Json], dict[str, Json]]:
    distinct = list(dict.fromkeys(kinds))
    refs, components = msgspec.json.schema_components(distinct, ref_template=REF_TEMPLATE)
    return dict(zip(distinct, refs, strict=True)), components


def _operation(operation: Operation, schemas: _Schemas) -> Json:
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": _KEYS[operation.key],
        "parameters": _parameters(operation, schemas),
        "responses": {**_successes(operation, schemas), **_problems(operation, schemas)},
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {"application/json": {"schema": schemas.ref(operation.body)}},
        }
    if operation.has_stream:
        # No bytes are a part of a file too, which HTTP cannot tell from no body.
        described["requestBody"] = {"required": False, "content": {ANY_TYPE: _BYTES}}
    return described


def _parameters(operation: Operation, schemas: _Schemas) -> list[Json]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": fields.SCHEMAS[name]}
        for name in operation.path_parameters
    ]
    in_headers = [
        {"name": name, "in": "header", "required": False, "schema": _REQUEST_HEADERS[name]}
        for name in operation.headers
    ]
    in_query = schemas.query_parameters(operation.query) if operation.query else []
    return in_path + in_query + in_headers


def _successes(operation: Operation, schemas: _Schemas) -> Json:
    answer: Json = {"content": {ANY_TYPE: _BYTES}} if operation.media_type == BINARY else {}
    if operation.answers:
        media_type = operation.media_type.partition(";")[0]
        answer["content"] = {media_type: {"schema": schemas.ref(*operation.answers)}}
    return {
        str(status): {"description": _ANSWERS[status], **answer} for status in operation.statuses
    }


def _problems(operation: Operation, schemas: _Schemas) -> Json:
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in sorted(operation.refusals, key=lambda kind: kind.code):
        by_status.setdefault(status_of(refusal), []).append(refusal)
    return {
        str(status): {
            "description": "\n".join(f"- `{kind.code}`: {kind.title}" for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": schemas.ref(Problem)}},
            "headers": _ANSWER_HEADERS.get(status, {}),
        }
        for status, kinds in sorted(by_status.items())
    }


def _catalogue(operations: Sequence[Operation]) -> list[Json]:
    """Return all refusals that a client may get from these operations."""
    anywhere: set[type[Refusal]] = {NotFound, MethodNotAllowed, ServerFailed}
    kinds = anywhere.union(*(operation.refusals for operation in operations))
    return [
        {
            "code": kind.code,
            "status": status_of(kind),
            "title": kind.title,
            "retryable": kind.retryable,
        }
        for kind in sorted(kinds, key=lambda kind: kind.code)
    ]


def _without_null(schema: Json) -> Json:
    """Return the schema without null, because a query cannot contain null."""
    if "anyOf" not in schema:
        return schema
    (present,) = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return dict(present)
