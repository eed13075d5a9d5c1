# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document against a real server: no server error, no answer it does not name.

Schemathesis makes requests from the document, valid ones and broken ones, the same at every run.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.schemas import BaseSchema

from tests.integration.conformance import DOCUMENT
from tests.integration.openapi_world import KEYS, Case, World, a_world
from tests.support.waiting import WAIT_SECONDS
from tidings.api.app import OPERATIONS
from tidings.api.requests import Body

EXAMPLES_LONG: Final = 50
"""Besides the cases that go through every field; these are drawn at random."""

CONFIG: Final[dict[str, Any]] = {
    "seed": 1,
    "generation": {
        "deterministic": True,
        "database": "none",
        "with-security-parameters": False,
    },
    "checks": {
        # A schema cannot say all: bytes of UTF-8, printable names, marks up to a log's head.
        "positive_data_acceptance": {"enabled": False},
        "negative_data_rejection": {
            "expected-statuses": [400, 401, 403, 404, 405, 409, 413, 415],
        },
    },
}
ENDS_OWN_TOKEN: Final = {"revoke_own_sessions"}
PLACES: Final = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("rest")) as made:
        yield made


@pytest.fixture(
    scope="module",
    params=[0, pytest.param(EXAMPLES_LONG, marks=pytest.mark.soak)],
    ids=lambda examples: f"{examples} examples",
)
def schema(request: pytest.FixtureRequest) -> BaseSchema:
    generation = {**CONFIG["generation"], "max-examples": request.param or 1}
    at_random = {"enabled": bool(request.param)}
    every_field = {"unexpected-methods": ["PATCH", "TRACE"]}
    phases = {"coverage": every_field, "examples": at_random, "fuzzing": at_random}
    config = SchemathesisConfig.from_dict({**CONFIG, "generation": generation, "phases": phases})
    return schemathesis.openapi.from_dict(DOCUMENT, config=config)


def check(schema: BaseSchema, method: str, path: str, call: Callable[[Case], None]) -> None:
    """Call an operation with every case that is made for it.

    Schemathesis would make them at collection, which every worker of a run does. It also names all
    operations alike under pytest 9.2, and of tests with one name pytest-xdist runs the first.
    """
    test = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=lambda case: call(case),
        given_kwargs={},
        feedback=FeedbackSources(),
        explicit_settings=UNHURRIED,
    )
    test()


@pytest.mark.attack("E05")
@pytest.mark.parametrize(("method", "path"), PLACES)
def test_requests_from_the_document(
    schema: BaseSchema, world: World, method: str, path: str
) -> None:
    place = world.place_for(method.upper())
    check(schema, method, path, lambda case: world.call(case, place))
    name = DOCUMENT["paths"][path][method]["operationId"]
    assert KEYS[name] is None or name in ENDS_OWN_TOKEN or 401 not in world.answers[name]


def test_the_document_is_served_as_it_is_made(world: World) -> None:
    answer = httpx.get(f"{world.url}/openapi.json", timeout=WAIT_SECONDS)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


def test_the_document_names_every_operation_once_and_well() -> None:
    described = [one for item in DOCUMENT["paths"].values() for one in item.values()]
    names = [one["operationId"] for one in described]
    assert len(names) == len(set(names)) == len(OPERATIONS)
    summaries = [one["summary"] for one in described]
    assert len(summaries) == len(set(summaries))
    for one in described:
        assert one["summary"][0].isupper()
        assert not one["summary"].endswith(".")
        assert one["description"]
        assert one["tags"]


def test_a_key_is_asked_for_everywhere_but_where_nobody_has_one() -> None:
    open_paths = {
        path
        for path, item in DOCUMENT["paths"].items()
        for one in item.values()
        if not one["security"]
    }
    assert open_paths == {
        "/.well-known/jwks.json",
        "/.well-known/receipt-keys.json",
        "/healthz",
        "/readyz",
        "/v1/auth/codes",
        "/v1/auth/refresh",
        "/v1/auth/sessions",
        "/v1/files/{link}",
        "/v1/unsubscribe/{link}",
    }


def test_bodies_say_that_they_take_no_other_fields() -> None:
    for one in OPERATIONS:
        if isinstance(one.body, type) and issubclass(one.body, Body):
            schema = DOCUMENT["components"]["schemas"][one.body.__name__]
            assert schema["additionalProperties"] is False, one.name


def test_every_code_has_one_status_and_one_meaning() -> None:
    catalogue = DOCUMENT["x-refusals"]
    codes = [refusal["code"] for refusal in catalogue]
    assert codes == sorted(set(codes))
    assert {"chat.not_found", "send.conflict", "store.unavailable"} <= set(codes)
    for refusal in catalogue:
        assert refusal["retryable"] == (refusal["status"] in (429, 503))
