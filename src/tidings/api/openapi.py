# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document, made from the declarations that the handlers run by.

The framework's own generator is not used: its schemas leave out that unknown fields are refused,
and it cannot tell an optional body or the headers of a refusal.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidings import __version__
from tidings.api import fields
from tidings.api.operations import Key, Operation
from tidings.api.problems import (
    MEDIA_TYPE,
    MethodNotAllowed,
    Problem,
    ServerFailed,
    status_of,
)
from tidings.model import limits
from tidings.model.refusals import NotFound, Refusal

Json = dict[str, Any]

REF_TEMPLATE: Final = "#/components/schemas/{name}"

_BEARER: Final = {"type": "http", "scheme": "bearer"}
_SECURITY_SCHEMES: Final = {
    "rootKey": {**_BEARER, "description": "The root key of the deployment: everything."},
    "tenantKey": {**_BEARER, "description": "A tenant key (`sk_…`): everything of one tenant."},
    "userToken": {
        **_BEARER,
        "bearerFormat": "JWT",
        "description": "A user token: one user of one tenant.",
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
}
_RETRY_AFTER: Final = {"schema": {"type": "string", "pattern": "^[0-9]+$"}}
_ANSWER_HEADERS: Final[dict[int, Json]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string", "const": "Bearer"}}},
    429: {"Retry-After": _RETRY_AFTER},
    503: {"Retry-After": _RETRY_AFTER},
}
_ANSWERS: Final = {
    200: "Done.",
    201: "Made.",
    202: "Taken on; it goes on by itself.",
    204: "Done; there is nothing to say.",
}


def make_document(operations: Sequence[Operation]) -> Json:
    """The document for these operations."""
    schemas = _Schemas(operations)
    by_path: dict[str, Json] = {}
    for one in operations:
        by_path.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidings",
            "version": __version__,
            "description": "A messaging backend to put into your own product.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(one.tag for one in operations)],
        "paths": by_path,
        "components": {"schemas": schemas.components, "securitySchemes": _SECURITY_SCHEMES},
        "x-refusals": _catalogue(operations),
    }


class _Schemas:
    """The schemas of all types that the operations name."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        bodies = [one.body for one in operations if one.body]
        answers = [answer for one in operations for answer in one.answers]
        queries = [one.query for one in operations if one.query]
        self._refs, self.components = _schemas_of([*bodies, *answers, Problem])
        self._query_refs, self._query_components = _schemas_of(queries)

    def ref(self, *kinds: type) -> Json:
        """A reference to the schema of a type, or to one of several."""
        refs = [self._refs[kind] for kind in kinds]
        return refs[0] if len(refs) == 1 else {"anyOf": refs}

    def query_parameters(self, query: type) -> list[Json]:
        """The parameters that a query consists of."""
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


def _operation(one: Operation, schemas: _Schemas) -> Json:
    described: Json = {
        "operationId": one.name,
        "tags": [one.tag],
        "summary": one.summary,
        "description": one.description,
        "security": _KEYS[one.key],
        "parameters": _parameters(one, schemas),
        "responses": {**_successes(one, schemas), **_problems(one, schemas)},
    }
    if one.body is not None:
        described["requestBody"] = {
            "required": not one.is_body_optional,
            "content": {"application/json": {"schema": schemas.ref(one.body)}},
        }
    return described


def _parameters(one: Operation, schemas: _Schemas) -> list[Json]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": fields.SCHEMAS[name]}
        for name in one.path_parameters
    ]
    in_headers = [
        {"name": name, "in": "header", "required": False, "schema": _REQUEST_HEADERS[name]}
        for name in one.headers
    ]
    in_query = schemas.query_parameters(one.query) if one.query else []
    return in_path + in_query + in_headers


def _successes(one: Operation, schemas: _Schemas) -> Json:
    answer: Json = {}
    if one.answers:
        answer["content"] = {"application/json": {"schema": schemas.ref(*one.answers)}}
    return {str(status): {"description": _ANSWERS[status], **answer} for status in one.statuses}


def _problems(one: Operation, schemas: _Schemas) -> Json:
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in sorted(one.refusals, key=lambda kind: kind.code):
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
    """Every code a client may meet here."""
    anywhere: set[type[Refusal]] = {NotFound, MethodNotAllowed, ServerFailed}
    kinds = anywhere.union(*(one.refusals for one in operations))
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
    """A query parameter that is absent is not sent as null."""
    if "anyOf" not in schema:
        return schema
    (present,) = [option for option in schema["anyOf"] if option != {"type": "null"}]
    return dict(present)
