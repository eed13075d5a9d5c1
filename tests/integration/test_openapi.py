# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document against a real server: no server error, no answer it does not name.

Schemathesis makes requests from the document, valid ones and broken ones, the same at every run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.schemas import BaseSchema

from tests.integration.conformance import DOCUMENT
from tests.integration.rest_server import serve_rest
from tests.integration.rest_world import ROOT_KEY, TENANT, Rest
from tests.support.waiting import WAIT_SECONDS
from tidings.api.app import OPERATIONS
from tidings.api.requests import Body

EXAMPLES: Final = 2
"""Besides the cases that go through every field; these are drawn at random."""
EXAMPLES_LONG: Final = 50
MESSAGES: Final = 300
NOTIFICATIONS: Final = 50
KEYS: Final = {one.name: one.key for one in OPERATIONS}

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
PLACES: Final = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]
Case = schemathesis.Case[Any]
UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Inhabited:
    """A server with two users, a chat of theirs with many messages, and an inbox with some."""

    url: str
    credentials: dict[str, str]
    chat: str
    turn: Iterator[int]
    session: requests.Session

    def call(self, case: Case) -> None:
        """Send what was made, and look at the answer."""
        case.call_and_validate(base_url=self.url, headers=self.headers(case), session=self.session)

    def headers(self, case: Case) -> dict[str, str]:
        """The credential that the operation asks for."""
        key = KEYS[case.operation.definition.raw["operationId"]]
        kind = "user" if key == "user or tenant" else key
        return {"Authorization": f"Bearer {self.credentials[kind]}"} if kind else {}

    def present(self) -> dict[str, object]:
        """Names of what is there; of the messages each time another one."""
        sequence = next(self.turn) % MESSAGES + 2
        return {
            "chat_id": self.chat,
            "emoji": "👍",
            "inbox": "news",
            "message_id": f"{self.chat}.{sequence}",
            "notification_id": f"b{sequence}",
            "sequence": sequence,
            "tenant": TENANT,
            "user_id": "bob",
        }


async def inhabit(rest: Rest) -> tuple[dict[str, str], str]:
    alice, _ = await rest.users("alice", "bob")
    backend = await rest.tenant()
    chat = await alice.group("bob")
    for number in range(MESSAGES):
        await alice.send(chat, f"m{number}")
    await backend.ok("PUT", f"/v1/tenants/{TENANT}/inboxes/news", {"title": "News"})
    notification = {"audience": {"kind": "everyone"}, "message": {"title": "x", "body": "y"}}
    for _ in range(NOTIFICATIONS):
        await backend.ok("POST", f"/v1/tenants/{TENANT}/inboxes/news/notifications", notification)
    assert backend.credential and alice.credential
    return {"root": ROOT_KEY, "tenant": backend.credential, "user": alice.credential}, chat


@pytest.fixture(scope="module")
def inhabited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inhabited]:
    folder = tmp_path_factory.mktemp("rest")
    with (
        requests.Session() as session,
        serve_rest(folder, inhabit) as (url, (credentials, chat)),
    ):
        session.trust_env = False
        yield Inhabited(url, credentials, chat, count(), session)


@pytest.fixture(
    scope="module",
    params=[EXAMPLES, pytest.param(EXAMPLES_LONG, marks=pytest.mark.soak)],
    ids=lambda examples: f"{examples} examples",
)
def schema(request: pytest.FixtureRequest) -> BaseSchema:
    generation = {**CONFIG["generation"], "max-examples": request.param}
    config = SchemathesisConfig.from_dict({**CONFIG, "generation": generation})
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
def test_requests_for_what_is_hardly_ever_there(
    schema: BaseSchema, inhabited: Inhabited, method: str, path: str
) -> None:
    check(schema, method, path, inhabited.call)


@pytest.mark.attack("E05")
@pytest.mark.parametrize(("method", "path"), [place for place in PLACES if "{" in place[1]])
def test_requests_for_what_is_there(
    schema: BaseSchema, inhabited: Inhabited, method: str, path: str
) -> None:
    def call(case: Case) -> None:
        present = inhabited.present()
        for name in case.path_parameters.keys() & present.keys():
            case.path_parameters[name] = present[name]
        inhabited.call(case)

    check(schema, method, path, call)


def test_the_document_is_served_as_it_is_made(inhabited: Inhabited) -> None:
    answer = httpx.get(f"{inhabited.url}/openapi.json", timeout=WAIT_SECONDS)
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
