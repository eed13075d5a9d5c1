# SPDX-License-Identifier: Apache-2.0
"""Sending over the socket: answers, order, who gets it, and what is refused."""

from typing import Any

import pytest

from tests.integration.cores import all_of
from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import (
    friends,
    people,
    refusal,
    sequences,
    settled,
    told,
    until_entries,
)
from tests.support.canary import MARK, canary
from tests.support.client_socket import Refused
from tests.support.people import Town

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_entries_go_to_every_device_of_every_member_and_not_back(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    [stranger] = await people(town, "cat")
    devices = [
        ann.device("phone"), ann.device("laptop"), ann.device("phone"), bob.device("a"),
        bob.device("b"), stranger.device(),
    ]  # fmt: skip
    await all_of(device.connect() for device in devices)
    sender, *others, outsider = devices
    for number in range(5):
        await sender.send(chat, canary(f"{number}"))

    for device in others:
        assert await until_entries(device, chat, 6) == [1, 2, 3, 4, 5, 6]
        assert [entry["content"] for entry in told(device, "entry", kind="message")] == [
            canary(f"{number}") for number in range(5)
        ]
    for device in (sender, outsider):
        await settled(device)
    assert sequences(sender, chat) == [1], "its own messages are answered, not repeated"
    assert [frame["sequence"] for frame in told(sender, "sent")] == [2, 3, 4, 5, 6]
    assert told(outsider, "entry") == []
    for device in devices:
        await device.close()


async def test_sends_of_one_connection_keep_their_order(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    other, _ = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as receiver:
        for number in range(300):
            sender.tell(
                {
                    "op": "send", "id": f"{number}", "chat": chat,
                    "client_message_id": f"m{number}", "content": canary(f"{number}"),
                }
            )  # fmt: skip
            if number % 50 == 0:
                sender.tell({"op": "typing", "chat": other})
        await until_entries(receiver, chat, 301)

    answers = told(sender, "sent")
    assert [answer["id"] for answer in answers] == [f"{number}" for number in range(300)]
    assert [answer["sequence"] for answer in answers] == list(range(2, 302))
    contents = [entry["content"] for entry in told(receiver, "entry", kind="message")]
    assert contents == [canary(f"{number}") for number in range(300)]


@pytest.mark.attack("C15")
async def test_a_repeat_gets_the_first_answer(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as one, ann.device() as two, bob.device() as receiver:
        first = await one.send_once(chat, canary("a"), "key")
        second = await two.send_once(chat, canary("a"), "key")
        await one.send_once(chat, canary("b"), "other")
        await until_entries(receiver, chat, 3)
        assert {**first, "id": ""} == {**second, "id": ""}
        assert sequences(receiver, chat) == [1, 2, 3]
        with pytest.raises(Refused) as refused:
            await one.send_once(chat, canary("changed"), "key")
    assert (refused.value.code, refused.value.retryable) == ("send.conflict", False)


async def test_options_come_with_the_entry(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as receiver:
        await sender.send_once(chat, canary("a"), "m1")
        options = {"reply_to": 2, "mentions": [bob.user_id], "silent": True}
        await sender.send_once(chat, canary("b"), "m2", **options)
        await until_entries(receiver, chat, 3)
        with pytest.raises(Refused) as unknown:
            await sender.send_once(chat, canary("c"), "m3", reply_to=9)
        with pytest.raises(Refused) as stranger:
            await sender.send_once(chat, canary("c"), "m4", mentions=["nobody"])
    plain, full = told(receiver, "entry", kind="message")
    assert not options.keys() & plain.keys()
    assert {name: full[name] for name in options} == options
    assert (unknown.value.code, unknown.value.retryable) == ("send.reply_unknown", False)
    assert stranger.value.code == "send.mention_unknown"


NULLS: dict[str, Any] = dict.fromkeys(
    ("content_type", "ttl_seconds", "after", "reply_to", "mentions", "silent", "attachments")
)


@pytest.mark.parametrize("option", [{}, {"silent": True}, {"reply_to": 2}, {"mentions": ["*"]}])
async def test_a_field_that_is_null_is_absent_everywhere(
    town: Town, option: dict[str, Any]
) -> None:
    chat, (ann, _) = await friends(town, "ann", "bob")
    await ann.send(chat)
    path = f"/v1/chats/{chat}/messages"
    async with ann.device() as sender:
        nulls = {**NULLS, **option}
        first = await sender.send_once(chat, canary("a"), "m1", **nulls)
        assert (await sender.send_once(chat, canary("a"), "m1", **option))["sequence"] == 3
        for fields in (nulls, option):
            body = {"client_message_id": "m1", "content": canary("a"), **fields}
            assert (await ann.call("POST", path, body))["message_id"] == first["message_id"]
        body = {"client_message_id": "m2", "content": canary("a"), **nulls}
        second = await ann.call("POST", path, body)
        again = await sender.send_once(chat, canary("a"), "m2", **option)
    assert again["message_id"] == second["message_id"]
    assert len(await ann.log(chat)) == 4


def text_of(size: int, tail: str = "") -> str:
    """Text of so many bytes of UTF-8, with the mark, ending so."""
    return (MARK + " ").ljust(size - len(tail.encode()), "x") + tail


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (text_of(4_096), None),
        (text_of(4_096, "😀"), None),
        (text_of(4_097), "content.too_large"),
        (text_of(4_097, "😀"), "content.too_large"),
        ("", "content.empty"),
        (canary(" \n\t "), None),
        (canary("\u0000 \u202e \u200b \u0301"), None),
    ],
)
async def test_content_is_counted_in_bytes(town: Town, content: str, code: str | None) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as receiver:
        frame = {"op": "send", "chat": chat, "client_message_id": "m", "content": content}
        if code is None:
            await sender.ask(frame)
            entry = await receiver.frame("entry", kind="message")
            assert entry["content"] == content
        else:
            assert (await refusal(sender, frame))["code"] == code


@pytest.mark.parametrize(
    "fields",
    [
        {"client_message_id": ""},
        {"client_message_id": "x" * 65},
        {"client_message_id": "no spaces"},
        {"content_type": ""},
        {"content_type": "text"},
        {"content_type": "te\nxt/plain"},
        {"ttl_seconds": 0},
        {"ttl_seconds": -1},
        {"ttl_seconds": 31_536_001},
        {"ttl_seconds": 10**40},
    ],
)
async def test_what_no_message_can_be_is_refused(town: Town, fields: dict[str, Any]) -> None:
    chat, (ann, _) = await friends(town, "ann", "bob")
    async with ann.device() as sender:
        frame = {"op": "send", "chat": chat, "client_message_id": "m", "content": "x", **fields}
        refused = await refusal(sender, frame)
        assert (refused["code"], refused["retryable"]) == ("request.invalid", False)
    assert len(await ann.log(chat)) == 1


async def test_type_and_lifetime_are_kept(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as receiver:
        await sender.send(chat, content_type="text/markdown", ttl_seconds=3_600)
        entry = await receiver.frame("entry", kind="message")
    assert entry["content_type"] == "text/markdown"
    assert entry["expires_at"] > entry["created_at"]


async def test_an_unknown_op_is_refused_by_name(town: Town) -> None:
    [ann] = await people(town, "ann")
    async with ann.device() as device:
        refused = await refusal(device, {"op": "dance"})
        assert (refused["code"], refused["retryable"]) == ("op.unknown", False)
        await settled(device)
