# SPDX-License-Identifier: Apache-2.0
"""The hook that is asked before each send: its settings, its failures, and the order of sends."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.support.clock import ManualClock
from tests.support.waiting import until
from tidings.actions.chat.before_send import (
    CALLS_AT_ONCE,
    FAILURES_MAX,
    PAUSE_MS,
    TEXT_CHARS_MAX,
    BeforeSendHooks,
    Verdict,
    hook_secrets,
    hooked_send,
)
from tidings.actions.chat.message_checks import check_content
from tidings.actions.chat.retention import Retention
from tidings.actions.chat.send_queues import SENDS_WAITING_MAX, SendQueues
from tidings.model.before_send import BeforeSend, before_send_in
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatBusy,
    HookUnavailable,
    Invalid,
    Refusal,
    SendDeclined,
    StoreUnavailable,
)
from tidings.model.retention import KEEP_ALL, RetentionRule
from tidings.ports.outgoing import PostFailed

ANN, CHAT = UserKey("acme:ann"), ChatId("01J00000000000000000000000")
MESSAGE = hooked_send(ANN, CHAT, "m1", "hello", "text/plain", None)


class Posts:
    """Answers with these bodies in turn, the last one for ever; None: it fails."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def post(self, url: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int) -> bytes:
        self.bodies.append(msgspec.json.decode(body))
        await self.may_go_on.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise PostFailed("as the test wants")
        return answer


class TenantSettings:
    """The settings of every tenant."""

    def __init__(self, **hook: Any) -> None:
        self.hook = {"url": "https://hook.example/", **hook}

    async def settings(self, _tenant: str) -> dict[str, object]:
        return {"before_send": self.hook}


def hooks_of(posts: Posts, clock: ManualClock | None = None, **hook: Any) -> BeforeSendHooks:
    clock = clock or ManualClock()
    retention = Retention(TenantSettings(**hook), clock)  # type: ignore[arg-type]
    return BeforeSendHooks(retention, posts, lambda *_: b"0" * 16, check_content, clock)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"", None),
        (b" \n", None),
        (b"{}", None),
        (b'{"verdict": "allow", "more": 1}', None),
        (b'{"verdict": "replace", "content": "better"}', "better"),
    ],
)
async def test_answers(answer: bytes, verdict: Verdict) -> None:
    rule, found = await hooks_of(Posts(answer), on_failure="refuse").judge(ANN, MESSAGE)
    assert found == verdict
    assert rule.hook == BeforeSend("https://hook.example/", on_failure="refuse")


async def test_a_text_for_the_sender() -> None:
    text = "x" * (TEXT_CHARS_MAX + 1)
    answer = msgspec.json.encode({"verdict": "decline", "text": text})
    _, declined = await hooks_of(Posts(answer)).judge(ANN, MESSAGE)
    assert isinstance(declined, SendDeclined)
    assert declined.detail == text[:-1] and not declined.retryable


@pytest.mark.parametrize(
    "answer",
    [
        None, b"{", b"[]", b'{"verdict": "maybe"}', b'{"verdict": "replace"}', b"\xff",
        b'{"verdict": "replace", "content": ""}', b'{"verdict": "decline", "text": 1}',
        b'{"more": ' + b"[" * 16_000,
        msgspec.json.encode({"verdict": "replace", "content": "x" * 4_097}),
    ],
)  # fmt: skip
async def test_the_tenant_decides_what_a_failure_means(answer: bytes | None) -> None:
    _, allowed = await hooks_of(Posts(answer)).judge(ANN, MESSAGE)
    _, refused = await hooks_of(Posts(answer), on_failure="refuse").judge(ANN, MESSAGE)
    assert allowed is None
    assert isinstance(refused, HookUnavailable) and refused.retryable


async def test_a_hook_that_fails_rests(caplog: pytest.LogCaptureFixture) -> None:
    clock, posts = ManualClock(), Posts(None)
    hooks = hooks_of(posts, clock)

    async def ask(times: int) -> int:
        for _ in range(times):
            await hooks.judge(ANN, MESSAGE)
        return len(posts.bodies)

    assert await ask(FAILURES_MAX + 5) == FAILURES_MAX
    assert [record.__dict__["action"] for record in caplog.records] == ["hook_failed"]
    clock.time += PAUSE_MS
    assert await ask(2) == FAILURES_MAX + 1, "one request finds out whether it answers again"
    posts.answers = [b""]
    clock.time += PAUSE_MS
    assert await ask(3) == FAILURES_MAX + 4


async def test_one_request_finds_out() -> None:
    clock, posts = ManualClock(), Posts(None)
    hooks = hooks_of(posts, clock)
    for _ in range(FAILURES_MAX):
        await hooks.judge(ANN, MESSAGE)
    clock.time += PAUSE_MS
    posts.may_go_on.clear()
    first = asyncio.create_task(hooks.judge(ANN, MESSAGE))
    await until(lambda: len(posts.bodies) == FAILURES_MAX + 1)
    await hooks.judge(ANN, MESSAGE)  # does not wait
    posts.may_go_on.set()
    await first
    assert len(posts.bodies) == FAILURES_MAX + 1


async def test_only_so_many_at_once() -> None:
    posts = Posts(b'{"verdict": "replace", "content": "seen"}')
    hooks = hooks_of(posts)
    posts.may_go_on.clear()
    asked = [asyncio.create_task(hooks.judge(ANN, MESSAGE)) for _ in range(CALLS_AT_ONCE)]
    await until(lambda: len(posts.bodies) == CALLS_AT_ONCE)
    assert (await hooks.judge(ANN, MESSAGE))[1] is None, "not asked, so it is allowed"
    other = asyncio.create_task(hooks.judge(UserKey("other:ann"), MESSAGE))
    await until(lambda: len(posts.bodies) == CALLS_AT_ONCE + 1)
    posts.may_go_on.set()
    assert {verdict for _, verdict in await asyncio.gather(*asked, other)} == {"seen"}


async def test_the_tenant_is_not_asked_about_itself() -> None:
    posts = Posts(None)
    _, verdict = await hooks_of(posts, on_failure="refuse").judge(ANN, MESSAGE, is_asked=False)
    assert verdict is None and posts.bodies == []


def test_secrets_differ() -> None:
    def digest(*parts: str) -> bytes:
        return "/".join(parts).encode()

    assert len(hook_secrets(digest, "acme", 1)) == 1
    newest, before = hook_secrets(digest, "acme", 2)
    assert before == hook_secrets(digest, "acme", 1)[0] != newest
    assert newest != hook_secrets(digest, "other", 2)[0]


@pytest.mark.parametrize(
    "wrong",
    [
        [], "https://hook.example", {}, {"url": 1}, {"url": "https://a/", "more": 1},
        {"url": "ftp://a/"}, {"url": "https:///a"}, {"url": "https://a b/"}, {"url": "/a"},
        {"url": "https://u:p@a/"}, {"url": "https://a/#b"}, {"url": "https://a:0/"},
        {"url": "https://a:99999/"}, {"url": "https://[::/"}, {"url": f"https://{'a' * 2_048}/"},
        {"url": "https://ä/"}, {"url": "https://a/", "timeout_ms": 0},
        {"url": "https://a/", "timeout_ms": 1_001}, {"url": "https://a/", "on_failure": "ask"},
        {"url": "https://a/", "secret_version": 0},
    ],
)  # fmt: skip
def test_what_a_tenant_may_not_set(wrong: object) -> None:
    with pytest.raises(Invalid):
        before_send_in({"before_send": wrong})


async def test_a_stored_mistake_is_no_hook() -> None:
    retention = Retention(TenantSettings(url="nowhere"), ManualClock())  # type: ignore[arg-type]
    assert await retention.rule("acme") == KEEP_ALL
    assert before_send_in({"before_send": None}) is None


class Sends:
    """Messages that wait in a queue, and what became of those that left it."""

    def __init__(self) -> None:
        self.queues = SendQueues()
        self.left: list[object] = []

    def enter(self, name: str) -> "asyncio.Future[Verdict]":
        judged: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        async def judge() -> tuple[RetentionRule, Verdict]:
            return KEEP_ALL, await judged

        def propose(_: RetentionRule, verdict: Verdict) -> None:
            self.left.append((name, verdict))

        def refuse(refusal: Refusal) -> None:
            self.left.append((name, refusal.code))

        self.queues.enter(ANN, CHAT, judge, propose, refuse)
        return judged


async def test_messages_leave_in_order_of_arrival() -> None:
    sends = Sends()
    first, second, third, fourth = (sends.enter(name) for name in "abcd")
    assert list(sends.queues.waiting) == [(ANN, CHAT)]
    third.set_result("c!")
    second.set_exception(StoreUnavailable())
    fourth.set_exception(ValueError("as the test wants"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sends.left == []
    first.set_result(None)
    await until(lambda: len(sends.left) == 4)
    down = StoreUnavailable.code
    assert sends.left == [("a", None), ("b", down), ("c", "c!"), ("d", down)]
    assert not sends.queues.waiting


async def test_a_queue_is_bounded() -> None:
    sends = Sends()
    waiting = [sends.enter("waits") for _ in range(SENDS_WAITING_MAX)]
    refused = sends.enter("is refused")
    assert not any(judged.done() for judged in (*waiting, refused))
    assert sends.left == [("is refused", ChatBusy.code)]
    await sends.queues.close()
