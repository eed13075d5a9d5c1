# SPDX-License-Identifier: Apache-2.0
"""Paths with names that are longer than any name can be: they are not found, on every engine."""

import re
from typing import Final

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Rest
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG: Final = "x" * 3_000
"""More than DynamoDB takes as a key."""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def with_names(path: str, **names: str) -> str:
    return _PARAMETER.sub(lambda found: names.get(found[1], LONG), path)


def _name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if "{" in one.path],
    ids=_name,
)
async def test_a_name_that_is_too_long_is_not_found(rest: Rest, operation: Operation) -> None:
    own = with_names(operation.path, tenant="acme")
    for caller, path in (
        (rest.root, with_names(operation.path)),
        (rest.root, own),
        (await rest.caller_of(operation), own),
    ):
        if LONG not in path:
            continue
        body: object = None if operation.body is None else {}
        answer = await caller.call(operation.method, path, body)
        assert answer.status_code < 500, (path.replace(LONG, "…"), answer.text)
