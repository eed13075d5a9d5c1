# SPDX-License-Identifier: Apache-2.0
"""The traces of a real server, as a collector receives them: OTLP over HTTP."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.integration.socket_town import friends, refusal, until_entries
from tests.support.collector import Collector, a_collector
from tests.support.engine import Settings
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

INTERNAL, SERVER = 1, 2
"""Kinds of spans in OTLP."""


def a_trace(number: int, *, is_sampled: bool = True) -> str:
    return f"00-{number:032x}-{number:016x}-0{int(is_sampled)}"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with a_collector() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def settings(collector: Collector) -> AsyncIterator[Settings]:
    yield {"otlp": collector.url}


async def test_a_traced_message_is_seen_from_the_frame_to_the_sockets(
    collector: Collector, server: ServerProcess, town: Town
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as first, bob.device() as second:
        await first.send(chat, "not traced")
        await first.send(chat, "not sampled", trace=a_trace(1, is_sampled=False))
        sent = await first.send(chat, "traced", trace=a_trace(2), id="r7")
        await until_entries(second, chat, 4)
        connection = (await first.frame("welcome"))["connection"]
        await until(lambda: len(collector.named("deliver")) == 1)

    (send,), (append,) = collector.named("send"), collector.named("append")
    (deliver,) = collector.named("deliver")
    assert (send.trace_id, send.parent_id) == (f"{2:032x}", f"{2:016x}")
    assert {append.trace_id, deliver.trace_id} == {send.trace_id}
    assert (append.parent_id, deliver.parent_id) == (send.span_id, append.span_id)
    assert (send.kind, append.kind) == (SERVER, INTERNAL)
    assert send.attributes == {
        "tidings.chat": chat,
        "tidings.request": f"{connection}/r7",
        "messaging.message.id": sent["message_id"],
        "tidings.sequence": sent["sequence"],
    }
    assert deliver.attributes["tidings.connections"] == 2
    assert send.resource["service.name"] == "tidings"
    assert send.resource["tidings.store"] == "sqlite"


async def test_a_rest_request_continues_the_trace_in_its_header(
    collector: Collector, server: ServerProcess, town: Town
) -> None:
    chat, (ann, _) = await friends(town, "ann", "bob")
    path = f"/v1/chats/{chat}/messages"
    headers = {"Authorization": f"Bearer {ann.token}", "X-Request-Id": "edge-8"}
    for content, trace in (("hello", a_trace(3)), ("", a_trace(4)), ("hi", "not a trace")):
        body = {"client_message_id": f"m-{content}", "content": content}
        await town.http.post(path, json=body, headers={**headers, "traceparent": trace})
    await until(lambda: any(span.trace_id == f"{4:032x}" for span in collector.spans))

    found = {span.name: span for span in collector.spans if span.trace_id == f"{3:032x}"}
    request = found["POST /v1/chats/{chat_id}/messages"]
    assert request.parent_id == f"{3:016x}"
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/chats/{chat_id}/messages",
        "http.response.status_code": 201,
        "tidings.request": "edge-8",
    }
    assert found["send"].parent_id == request.span_id
    assert found["append"].parent_id == found["send"].span_id


async def test_a_refused_message_ends_its_spans_with_the_code(
    collector: Collector, server: ServerProcess, town: Town
) -> None:
    chat, (ann, _) = await friends(town, "ann", "bob")
    async with ann.device() as device:
        frame = {"op": "send", "id": "1", "chat": chat, "client_message_id": "m1"}
        told = await refusal(device, {**frame, "content": "", "trace": a_trace(5)})
        assert told["code"] == "content.empty"
        wrong = await refusal(device, {**frame, "content": "x", "trace": "nonsense"})
        assert wrong["code"] == "request.invalid"
    await until(lambda: any(span.error == "content.empty" for span in collector.named("send")))
    assert all("canary" not in str(span) for span in collector.spans)
