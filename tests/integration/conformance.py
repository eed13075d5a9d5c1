# SPDX-License-Identifier: Apache-2.0
"""Every answer in these tests is held against the OpenAPI document."""

import re
from typing import Any, Final

import httpx
import requests
import schemathesis

from tidings.api.app import OPERATIONS
from tidings.api.documents import make_document

DOCUMENT: Final = make_document(OPERATIONS)
OF_NO_OPERATION: Final = frozenset({"not_found", "method.not_allowed", "server.failed"})
"""Codes of answers that no operation gave: the request did not get that far, or fell over."""

_SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT)
_NO_REQUEST: Final = requests.Request("GET", "http://tidings/").prepare()
"""Stands for the request of an answer. To convert the real one, which only an error shows, takes
several times as long as to check the answer."""
_ROUTES: Final = [
    (one.method, re.compile(re.sub(r"{\w+}", "[^/]+", one.path)), one.path) for one in OPERATIONS
]


def check_answer(answer: httpx.Response) -> None:
    """Fail if the document does not name this status, media type or shape for its operation."""
    path = _operation_path(answer.request)
    if path is None or _code(answer) in OF_NO_OPERATION:
        return
    method = answer.request.method
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    declared = responses.get(str(answer.status_code))
    assert declared is not None, f"{method} {path} does not name {answer.status_code}"
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    assert list(declared.get("content", {"": None})) in ([media_type], ["*/*"]), media_type
    assert all(name in answer.headers for name in declared.get("headers", {})), answer.headers
    if _code(answer) is not None:
        assert f"`{_code(answer)}`" in declared["description"], f"{method} {path}: {answer.text}"
    operation = _SCHEMA[path][method]
    if not operation.is_valid_response(_converted(answer)):
        operation.validate_response(answer)


def _converted(answer: httpx.Response) -> schemathesis.Response:
    return schemathesis.Response(
        status_code=answer.status_code,
        headers={name: [text] for name, text in answer.headers.items()},
        content=answer.content,
        request=_NO_REQUEST,
        elapsed=0.0,
        verify=False,
        encoding=answer.encoding,
    )


def _operation_path(request: httpx.Request) -> str | None:
    target = request.url.raw_path.decode().partition("?")[0]
    for method, pattern, path in _ROUTES:
        if method == request.method and pattern.fullmatch(target):
            return path
    return None


def _code(answer: httpx.Response) -> Any:
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.json()["code"] if is_problem and answer.content else None
