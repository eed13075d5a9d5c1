# SPDX-License-Identifier: Apache-2.0
"""The steps of delivery on the real log: who is handed what, and in which order.

The interleavings are those of the delivery model; here the real code takes the steps.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.canary import MARK
from tests.support.delivery import DeliveryDeployment, open_delivery, tables_for_a_while
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.delivery.chat_states import NotInLog
from tidings.model.entries import EVERYONE, SendOptions, head_of
from tidings.model.ids import ChatId
from tidings.model.push_rules import ArrivedMessage
from tidings.stores.dynamodb.chat import heads
from tidings.wire.events import HintEvent


@pytest.fixture(scope="module")
def tables(dynamodb_endpoint: str) -> Iterator[str]:
    yield from tables_for_a_while(dynamodb_endpoint)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the master key of the module's deployment is."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture
async def delivery(
    dynamodb_endpoint: str, tables: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DeliveryDeployment]:
    # A head copy is written once a second at most. Here each step waits for the one before.
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 0.001)
    async with open_delivery(dynamodb_endpoint, tables, folder) as delivery:
        yield delivery


async def test_a_message_reaches_everyone_once_and_the_head_copy_says_so(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB, CAT)
    await delivery.send(ANN, chat, "to all")
    devices = [
        delivery.gateways.connect(ANN),
        delivery.gateways.connect(BOB),
        delivery.gateways.connect(BOB, "g2"),
    ]
    await delivery.deliver(delivery.deliverer(), chat)
    for device in devices:
        assert device.sequences == [1, 2]
        assert device.frame(2)["content"] == f"{MARK} to all"
        assert device.encoded_entries[0].added == (ANN, BOB, CAT)
    assert await delivery.head(chat) == 2
    assert len(delivery.gateways.looks) == 2


async def test_content_travels_sealed_and_nothing_else_does(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat, "secret")
    await delivery.edit(chat, 2, "changed secret")
    assert MARK.encode() not in b"".join(delivery.events)
    message, edit = delivery.taken()[1:]
    assert message.entry.box and not message.entry.content
    assert edit.entry.box is None


async def test_whoever_registers_before_the_head_copy_is_written_is_handed_it(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer = delivery.deliverer()
    early = delivery.gateways.connect(BOB)
    handed = await deliverer.dispatch(chat, delivery.taken())
    assert await delivery.head(chat) == 0
    early.dies(stays_registered=True)
    late = delivery.gateways.connect(BOB, "g2")  # its hello finds no head copy
    await deliverer.write_head(handed)
    assert await delivery.head(chat) == 1
    assert late.sequences == []
    await deliverer.dispatch_again(handed)
    assert late.sequences == [1]
    assert delivery.push_queue.offers == []


@pytest.mark.attack("S06")
async def test_content_of_an_author_erased_between_the_two_looks_is_not_handed_over(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat, "soon erased")
    await delivery.edit(chat, 2, "still erased")
    early = delivery.gateways.connect(BOB)
    deliverer = delivery.deliverer()
    handed = await deliverer.dispatch(chat, delivery.taken())
    for sequence in (2, 3):
        assert early.frame(sequence)["content"] == f"{MARK} still erased"
    kept = msgspec.json.encode([[one.run.entries, one.batches] for one in handed], enc_hook=repr)
    assert MARK.encode() not in kept, "nothing is held opened while the head copy is waited for"
    await deliverer.write_head(handed)
    await delivery.vault.erase(ANN)
    late = delivery.gateways.connect(BOB, "g2")
    await deliverer.dispatch_again(handed)
    assert late.sequences == [1, 2, 3]
    assert late.frame(2)["erased"] is True
    assert [late.frame(sequence).get("content") for sequence in (2, 3)] == [None, None]


async def test_a_connection_that_has_it_is_not_handed_it_again(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    device, other = delivery.gateways.connect(BOB), delivery.gateways.connect(ANN, "g2")
    await delivery.deliver(delivery.deliverer(), chat)
    assert device.sequences == other.sequences == [1]


@pytest.mark.attack("D02")
async def test_a_removed_member_is_handed_its_removal_and_nothing_after_it(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB, CAT)
    await delivery.send(ANN, chat, "before")
    await delivery.remove(chat, BOB)
    await delivery.send(ANN, chat, "after")
    # Another worker has delivered all of it, and it comes again, the later event first.
    await delivery.deliver(delivery.deliverer(), chat, delivery.taken(1, 2, 3, 4))
    delivery.push_queue.offers.clear()
    gone, stays = delivery.gateways.connect(BOB), delivery.gateways.connect(CAT)
    deliverer = delivery.deliverer()
    for sequence in (4, 2, 3):
        await delivery.deliver(deliverer, chat, delivery.taken(sequence))
    assert gone.sequences == [3]
    assert gone.encoded_entries[0].removed == (BOB,)
    assert sorted(stays.sequences) == [2, 3, 4]
    assert delivery.push_queue.of(BOB) == []


@pytest.mark.attack("D02", "W08")
async def test_who_is_removed_between_the_two_looks_is_not_handed_it_by_the_second(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer = delivery.deliverer()
    await delivery.deliver(deliverer, chat)
    await delivery.send(ANN, chat, "just in time")
    first = await deliverer.dispatch(chat, delivery.taken())
    await delivery.remove(chat, BOB)
    await deliverer.dispatch(chat, delivery.taken())
    late = delivery.gateways.connect(BOB)
    await deliverer.write_head(first)
    await deliverer.dispatch_again(first)
    assert late.sequences == []
    assert delivery.push_queue.of(BOB) == []


async def test_a_newcomer_is_handed_entries_from_its_joining_on(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat)
    await delivery.add(chat, DAN)
    await delivery.send(ANN, chat)
    newcomer = delivery.gateways.connect(DAN)
    await delivery.deliver(delivery.deliverer(), chat)
    assert newcomer.sequences == [3, 4]
    assert newcomer.encoded_entries[0].added == (DAN,)
    assert delivery.push_queue.of(DAN) == []


async def test_what_no_event_told_of_is_read_from_the_log(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer, device = delivery.deliverer(), delivery.gateways.connect(BOB)
    await delivery.deliver(deliverer, chat)
    for number in range(4):
        await delivery.send(ANN, chat, f"number {number}")
    await delivery.deliver(deliverer, chat, delivery.taken(5))
    assert device.sequences == [1, 2, 3, 4, 5]
    assert device.frame(3)["content"] == f"{MARK} number 1"


async def test_an_event_beyond_the_log_is_refused(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    with pytest.raises(NotInLog):
        await delivery.deliverer().dispatch(chat, [HintEvent(chat, 7)])
    with pytest.raises(NotInLog):
        await delivery.deliverer().dispatch(ChatId("0" * 26), [HintEvent(ChatId("0" * 26), 1)])
    assert device.sequences == []


# Content.


@pytest.mark.attack("D23", "W08")
async def test_a_redacted_message_is_a_tombstone_in_the_same_run(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat, "regretted")
    await delivery.redact(chat, 2)
    await delivery.deliver(delivery.deliverer(), chat)
    assert device.frame(2)["redacted"] is True
    assert MARK not in str(device.frames)
    assert delivery.push_queue.offers == []


async def test_a_message_that_is_not_the_newest_known_is_read_again(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat, "regretted")
    await delivery.redact(chat, 2)
    # Only the first event has come so far, but a cold state has seen further.
    await delivery.deliver(delivery.deliverer(), chat, delivery.taken(2))
    assert device.frame(2)["redacted"] is True


async def test_an_edit_shows_what_the_target_says_now(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer, device = delivery.deliverer(), delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat, "teh")
    await delivery.deliver(deliverer, chat)
    await delivery.edit(chat, 2, "the")
    await delivery.deliver(deliverer, chat)
    assert device.frame(2)["content"] == f"{MARK} teh"
    assert device.frame(3)["content"] == f"{MARK} the"


async def test_what_expired_on_the_way_is_not_handed_out(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat, "brief", ttl_seconds=5)
    delivery.clock.time += 5_000
    await delivery.deliver(delivery.deliverer(), chat)
    assert device.frame(2)["expired"] is True
    assert MARK not in str(device.frames)
    assert delivery.push_queue.offers == []


# Old events.


async def test_events_from_long_ago_are_hints_only(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB, CAT, DAN)
    await delivery.send(ANN, chat, "kept")
    await delivery.send(ANN, chat, "regretted")
    await delivery.send(ANN, chat, "brief", ttl_seconds=10)
    await delivery.redact(chat, 3)
    await delivery.remove(chat, BOB)
    delivery.clock.time += 30_001
    gone, stays = delivery.gateways.connect(BOB), delivery.gateways.connect(CAT)
    deliverer = delivery.deliverer()
    for event in delivery.taken():
        await delivery.deliver(deliverer, chat, [event])
    assert stays.sequences == [1, 2, 3, 4, 5, 6]
    assert stays.frame(2)["content"] == f"{MARK} kept"
    assert stays.frame(3)["redacted"] is stays.frame(4)["expired"] is True
    assert gone.sequences == [6]
    assert delivery.push_queue.offers == []


async def test_a_repeat_of_what_was_delivered_costs_nothing(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer, device = delivery.deliverer(), delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat)
    events = delivery.taken()
    await delivery.deliver(deliverer, chat, events)
    delivery.usage.clear()
    await delivery.deliver(deliverer, chat, events)
    assert device.sequences == [1, 2]
    assert delivery.usage == []


async def test_a_warm_chat_costs_a_message_one_write_and_no_read(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer = delivery.deliverer()
    await delivery.deliver(deliverer, chat)
    await delivery.send(ANN, chat)
    delivery.gateways.connect(ANN)
    delivery.gateways.connect(BOB)
    delivery.usage.clear()
    await delivery.deliver(deliverer, chat)
    assert [one.pattern.name for one in delivery.usage] == ["advance_head"]
    assert sum(one.write_units for one in delivery.usage) == 1


async def test_a_chat_left_alone_for_long_is_not_delivered_from_the_beginning(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer, device = delivery.deliverer(), delivery.gateways.connect(BOB)
    await delivery.deliver(deliverer, chat)
    for _ in range(257):
        await delivery.send(ANN, chat)
    head = head_of(delivery.taken(257)[0].entry)  # others have delivered it meanwhile
    await delivery.store.deliveries.advance(chat, head, None)
    await delivery.deliver(deliverer, chat, delivery.taken(258))
    assert device.sequences == [1, 258]


async def test_messages_are_offered_to_push_for_those_without_a_connection(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB, CAT, DAN)
    delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat)
    await delivery.deliver(delivery.deliverer(), chat)
    message = ArrivedMessage(2, ANN, is_mention=False)
    assert delivery.push_queue.offers == [(CAT, chat, message), (DAN, chat, message)]


async def test_push_follows_mentions_and_silence(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    for names, is_silent in (((), False), (EVERYONE, False), (EVERYONE, True)):
        await delivery.send(ANN, chat, options=SendOptions(None, names, is_silent))
    await delivery.deliver(delivery.deliverer(), chat)
    assert [(one.sequence, one.is_mention) for _, _, one in delivery.push_queue.offers] == [
        (2, False),
        (3, True),
    ]


async def test_a_gateway_that_does_not_answer_holds_nobody(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat)
    device = delivery.gateways.connect(BOB, "g9")
    delivery.gateways.silent.add("g9")
    deliverer = delivery.deliverer()
    await delivery.deliver(deliverer, chat)
    assert device.sequences == []
    assert delivery.push_queue.of(BOB) == [2]
    assert await delivery.head(chat) == 2
    assert deliverer.gateway_dispatch.silent_gateways > 0


async def test_without_a_registry_the_head_copy_is_written_all_the_same(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    delivery.gateways.is_registry_down = True
    deliverer = delivery.deliverer()
    await delivery.deliver(deliverer, chat)
    assert device.sequences == []
    assert await delivery.head(chat) == 1
    assert deliverer.gateway_dispatch.failed_lookups == delivery.gateways.owed_comparisons == 2


async def test_the_last_message_goes_with_the_head_copy(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    deliverer = delivery.deliverer()
    sent = await delivery.send(ANN, chat, "last")
    await delivery.add(chat, CAT)
    await delivery.deliver(deliverer, chat)
    rows = await delivery.store.chats.listing(BOB, below=None, limit=99, now=delivery.clock.now())
    (row,) = [row for row in rows if row.chat_id == chat]
    assert row.last is not None
    assert (row.head.sequence, row.last.box) == (3, sent.box)
    assert row.last.mark == "", "it is a copy"


async def test_a_stretch_is_delivered_for_whoever_asks(delivery: DeliveryDeployment) -> None:
    chat = await delivery.chat(ANN, BOB)
    for _ in range(3):
        await delivery.send(ANN, chat)
    await delivery.deliver(delivery.deliverer(), chat, delivery.taken(1))
    device = delivery.gateways.connect(BOB)
    await delivery.deliverer().deliver(chat, after=1, up_to=4)
    assert device.sequences == [2, 3, 4]
    assert await delivery.head(chat) == 4


async def test_an_old_event_goes_to_those_who_are_members_by_now(
    delivery: DeliveryDeployment,
) -> None:
    chat = await delivery.chat(ANN, BOB, CAT)
    deliverer = delivery.deliverer()
    await delivery.deliver(deliverer, chat)
    await delivery.send(ANN, chat, "before")
    await delivery.remove(chat, BOB)
    delivery.clock.time += 30_001
    gone, stays = delivery.gateways.connect(BOB), delivery.gateways.connect(CAT)
    # The chat is known as it was; the removal has not been told of yet.
    await delivery.deliver(deliverer, chat, delivery.taken(2))
    assert gone.sequences == []
    assert stays.sequences == [2]
    await delivery.deliver(deliverer, chat, delivery.taken(3))
    assert gone.sequences == [3]
    assert stays.sequences == [2, 3]
