# SPDX-License-Identifier: Apache-2.0
"""The rules of one connection: frames in, what to do out."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.users import ANN, BOB
from tidings.actions.identity.caller import UserCaller
from tidings.gateway.conversation import CloseRequest, Conversation, State
from tidings.model import limits
from tidings.wire.codes import Close
from tidings.wire.frames import Hello, Ping, Read, Refused, SendFrame

FAR_AHEAD = 10**15


def said(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


HELLO = said(op="hello", token="t")
PING = said(op="ping")
NO_FRAME = b'{"op":"read","chat":1}'
SEND = said(op="send", id="1", chat="c", client_message_id="m", content="hi")


def greeted() -> Conversation:
    conversation = Conversation(0)
    conversation.receive(HELLO, 0)
    return conversation


def opened() -> Conversation:
    conversation = greeted()
    conversation.admit(UserCaller(ANN, None, FAR_AHEAD), "phone")
    return conversation


# Before welcome.


def test_hello_may_name_every_chat_that_a_user_can_have() -> None:
    chats = limits.USER_CHATS_MAX + limits.OTHERS_DIRECT_CHATS_MAX
    have = {f"{number:026}": 10**9 for number in range(chats)}
    hello = said(op="hello", token="t" * limits.TOKEN_BYTES_MAX, have=have)
    frame = Conversation(0).receive(hello, 0)
    assert isinstance(frame, Hello)
    assert frame.have == have


def test_hello_is_bounded_and_what_follows_it_is_shorter() -> None:
    longest = HELLO.ljust(limits.HELLO_BYTES_MAX)
    too_long = CloseRequest(Close.FRAME_TOO_LARGE)
    assert Conversation(0).receive(longest + b" ", 0) == too_long
    conversation = Conversation(0)
    assert isinstance(conversation.receive(longest, 0), Hello)
    assert conversation.receive(PING.ljust(limits.FRAME_BYTES_MAX + 1), 0) == too_long


def test_hello_comes_first() -> None:
    conversation = Conversation(0)
    assert isinstance(conversation.receive(HELLO, 0), Hello)
    assert conversation.state is State.CHECKING


@pytest.mark.parametrize(
    "frame",
    [
        PING,
        SEND,
        said(op="received", chat="c", sequence=1),
        said(op="read", chat="c", sequence=1),
        said(op="typing", chat="c"),
        said(op="fetch", id="1", chat="c", after=0),
        said(op="auth", token="t"),
    ],
)
def test_nothing_else_may_come_first(frame: bytes) -> None:
    assert Conversation(0).receive(frame, 0) == CloseRequest(Close.NOT_AUTHENTICATED)


@pytest.mark.parametrize("frame", [b"", b"hello", b"[]", b"{}", said(op="who"), b'{"op":"hello"}'])
def test_a_first_frame_that_is_none_ends_it(frame: bytes) -> None:
    assert Conversation(0).receive(frame, 0) == CloseRequest(Close.BAD_FRAME)


def test_what_comes_between_hello_and_welcome_waits_for_it() -> None:
    conversation = greeted()
    assert isinstance(conversation.receive(PING, 0), Ping)
    assert conversation.receive(SEND, 0) is None
    (early,) = conversation.admit(UserCaller(ANN, None, FAR_AHEAD), "phone")
    assert isinstance(early, SendFrame)


def test_a_second_hello_does_not_wait() -> None:
    assert greeted().receive(HELLO, 0) == CloseRequest(Close.NOT_AUTHENTICATED)


def test_only_so_much_may_come_between_hello_and_welcome() -> None:
    conversation = greeted()
    for _ in range(limits.EARLY_FRAMES_MAX):
        assert conversation.receive(SEND, 0) is None
    answer = conversation.receive(SEND, 0)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.id, answer.retryable) == ("connection.busy", "1", True)
    assert (
        len(conversation.admit(UserCaller(ANN, None, FAR_AHEAD), "phone"))
        == limits.EARLY_FRAMES_MAX
    )


def test_what_makes_no_sense_is_refused_as_soon_as_hello_came() -> None:
    conversation = greeted()
    assert isinstance(conversation.receive(said(op="dance"), 0), Refused)
    assert isinstance(conversation.receive(NO_FRAME, 0), Refused)


# Open.


def test_frames_of_an_open_connection_are_handed_on() -> None:
    frame = opened().receive(SEND, 0)
    assert frame == SendFrame(id="1", chat="c", client_message_id="m", content="hi")


def test_unknown_fields_are_ignored() -> None:
    frame = opened().receive(said(op="read", chat="c", sequence=3, colour="red"), 0)
    assert frame == Read(chat="c", sequence=3)


def test_an_unknown_op_is_refused_however_often_it_comes() -> None:
    conversation = opened()
    for number in range(10):
        answer = conversation.receive(said(op="dance", id=f"{number}"), 0)
        assert isinstance(answer, Refused)
        assert (answer.code, answer.id, answer.retryable) == ("op.unknown", f"{number}", False)


def test_hello_comes_once() -> None:
    answer = opened().receive(HELLO, 0)
    assert isinstance(answer, Refused)
    assert answer.code == "request.invalid"


@pytest.mark.parametrize(
    ("frame", "detail"),
    [
        (NO_FRAME, "chat must be a string"),
        (said(op="fetch", id="1", chat="c", after=0, limit=101), "limit must be at most 100"),
        (said(op="send", id="1"), "chat is missing"),
        (b"[]", "a frame must be one JSON object"),
    ],
)
def test_a_bad_frame_is_explained(frame: bytes, detail: str) -> None:
    answer = opened().receive(frame, 0)
    assert isinstance(answer, Refused)
    assert answer.detail == detail


@pytest.mark.attack("C11")
def test_the_third_bad_frame_in_a_row_ends_it() -> None:
    conversation = opened()
    answers = [conversation.receive(NO_FRAME, 0) for _ in range(limits.BAD_FRAMES_MAX)]
    assert all(isinstance(answer, Refused) for answer in answers[:-1])
    assert answers[-1] == CloseRequest(Close.BAD_FRAME)


def test_a_good_frame_makes_good_for_bad_ones() -> None:
    conversation = opened()
    for _ in range(10):
        assert isinstance(conversation.receive(NO_FRAME, 0), Refused)
        assert isinstance(conversation.receive(PING, 0), Ping)


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        (b'{"op":"send","id":"7"}', "7"),
        (b'{"op":"send","id":7}', None),
        (b'{"op":"fetch","id":"%s","chat":"c"}' % (b"x" * 65), None),
        (b'{"op":"send","id":{}}', None),
        (b"nonsense", None),
    ],
)
def test_a_refusal_names_the_request_if_it_can(frame: bytes, request_id: str | None) -> None:
    answer = opened().receive(frame, 0)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.id) == ("request.invalid", request_id)


def test_a_frame_of_the_greatest_length_is_taken_and_a_longer_one_ends_it() -> None:
    longest = PING.ljust(limits.FRAME_BYTES_MAX)
    assert isinstance(opened().receive(longest, 0), Ping)
    assert opened().receive(longest + b" ", 0) == CloseRequest(Close.FRAME_TOO_LARGE)


def test_a_closed_connection_takes_nothing() -> None:
    conversation = opened()
    conversation.state = State.CLOSED
    assert [conversation.receive(frame, 0) for frame in (HELLO, PING, b"x")] == [None] * 3
    assert conversation.overdue(FAR_AHEAD, FAR_AHEAD) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FRAMELIKE = st.fixed_dictionaries(
    {"op": st.sampled_from(["hello", "send", "received", "read", "typing", "fetch", "auth", "x"])},
    optional=dict.fromkeys(
        ("id", "chat", "sequence", "content", "token", "have", "after", "before"), JSON
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.binary() | FRAMELIKE.map(msgspec.json.encode) | JSON.map(msgspec.json.encode))
def test_nothing_that_comes_raises(payload: bytes) -> None:
    for conversation in (Conversation(0), greeted(), opened()):
        conversation.receive(payload, 0)


# Who it is.


@pytest.mark.parametrize(
    ("fixed", "named", "device"),
    [
        (None, "phone", "phone"),
        ("phone", None, "phone"),
        ("phone", "phone", "phone"),
        ("phone", "laptop", Close.FORBIDDEN),
        (None, None, Close.BAD_FRAME),
        (None, "", Close.BAD_FRAME),
        (None, "no spaces", Close.BAD_FRAME),
        (None, "x" * 65, Close.BAD_FRAME),
        (None, "x" * 64, "x" * 64),
    ],
)
def test_the_token_fixes_the_device_or_hello_names_it(
    fixed: str | None, named: str | None, device: str | Close
) -> None:
    assert greeted().choose_device(fixed, named) == device


def test_a_fresh_token_moves_the_end() -> None:
    conversation = greeted()
    conversation.admit(UserCaller(ANN, None, 1_000), "phone")
    assert conversation.overdue(0, 1_000) is Close.NOT_AUTHENTICATED
    assert conversation.renew(UserCaller(ANN, None, 2_000)) is None
    assert conversation.renew(UserCaller(ANN, "phone", 2_000)) is None
    assert conversation.overdue(0, 1_999) is None


@pytest.mark.attack("C16")
def test_a_fresh_token_is_for_the_same_user_and_no_other_device() -> None:
    conversation = greeted()
    conversation.admit(UserCaller(ANN, None, 1_000), "phone")
    assert conversation.renew(UserCaller(BOB, None, 2_000)) is Close.FORBIDDEN
    assert conversation.renew(UserCaller(ANN, "laptop", 2_000)) is Close.FORBIDDEN
    assert conversation.overdue(0, 1_000) is Close.NOT_AUTHENTICATED


# Silence.


def test_hello_has_to_come_in_time() -> None:
    conversation = Conversation(500)
    assert conversation.overdue(500 + limits.HELLO_MS_MAX, 0) is None
    assert conversation.overdue(501 + limits.HELLO_MS_MAX, 0) is Close.SILENT


def test_a_client_whose_hello_is_never_looked_at_comes_back_later() -> None:
    conversation = greeted()
    assert conversation.overdue(2 * limits.HELLO_MS_MAX, 0) is None
    assert conversation.overdue(2 * limits.HELLO_MS_MAX + 1, 0) is Close.OVERLOADED


@pytest.mark.attack("C17")
def test_silence_ends_it() -> None:
    conversation = opened()
    quiet = limits.SILENCE_MS_MAX
    assert conversation.overdue(quiet, 0) is None
    assert conversation.overdue(quiet + 1, 0) is Close.SILENT


@pytest.mark.parametrize("frame", [PING, SEND, b"nonsense"])
def test_whatever_a_client_says_is_a_heartbeat(frame: bytes) -> None:
    conversation = opened()
    quiet = limits.SILENCE_MS_MAX
    conversation.receive(frame, quiet)
    assert conversation.overdue(2 * quiet, 0) is None


def test_a_pong_is_a_sign_of_life() -> None:
    conversation = opened()
    conversation.heard(limits.SILENCE_MS_MAX)
    assert conversation.overdue(2 * limits.SILENCE_MS_MAX, 0) is None
    assert conversation.overdue(2 * limits.SILENCE_MS_MAX + 1, 0) is Close.SILENT


def test_a_silent_client_is_asked_for_a_sign_now_and_then() -> None:
    conversation = opened()
    assert not conversation.needs_probe(limits.PROBE_MS - 1)
    assert conversation.needs_probe(limits.PROBE_MS)
    assert not conversation.needs_probe(limits.PROBE_MS + 1)
    assert conversation.needs_probe(2 * limits.PROBE_MS)
    conversation.receive(PING, 3 * limits.PROBE_MS - 1)
    assert not conversation.needs_probe(3 * limits.PROBE_MS)


def test_nobody_is_asked_before_the_connection_is_open() -> None:
    assert not Conversation(0).needs_probe(limits.PROBE_MS)
