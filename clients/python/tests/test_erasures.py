# SPDX-License-Identifier: Apache-2.0
"""Content of erased people is neither handed on nor kept, wherever it comes from."""

import hmac
from datetime import datetime, timedelta

import pytest

from clients.python.tests.entries import NOON, message, messages
from clients.python.tests.talking import Talk
from tidings_client import erasures as module
from tidings_client.events import ContentErased, Edited, Event, Message
from tidings_client.frames import Entry, ErasedAuthor, ErasedFrame, Hello

SALT = bytes(range(16))
EARLIER = NOON - timedelta(seconds=1)


def erased(*authors: str, n: int, before: datetime = NOON, salt: bytes = SALT) -> ErasedFrame:
    digests = [hmac.digest(salt, author.encode(), "sha256")[:8].hex() for author in authors]
    return ErasedFrame(n, salt.hex(), [ErasedAuthor(digest, before) for digest in digests])


def contents(events: list[Event]) -> list[tuple[str | None, str | None]]:
    return [(one.content, one.gone) for one in events if isinstance(one, Message)]


async def test_the_application_learns_whose_content_to_drop() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(erased("bob", n=4, before=NOON))
    _, event = await talk.take(2)
    assert isinstance(event, ContentErased)
    assert not event.all
    assert event.covers("bob", NOON)
    assert not event.covers("bob", NOON + timedelta(milliseconds=1)), "written afterwards"
    assert not event.covers("carol", NOON)


async def test_what_waits_and_what_comes_later_is_without_content() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(message(1), message(2, sender="carol"), message(4))
    talk.hear(erased("bob", n=4))
    edit = Entry(
        chat="c", sequence=5, kind="edited", sender="bob", created_at=NOON, target=1, content="new"
    )
    talk.hear(message(3), edit)
    events = list(await talk.take(7))
    gone, kept = (None, "erased"), ("number 2", None)
    assert contents(events) == [gone, kept, gone, gone]
    assert [one.content for one in events if isinstance(one, Edited)] == [None]


async def test_content_that_was_written_later_stays() -> None:
    talk = Talk()
    talk.connect()
    talk.hear(erased("bob", n=4, before=EARLIER))
    talk.hear(*messages(1, 1))
    assert contents(list(await talk.take(3))) == [("number 1", None)]


async def test_the_place_is_kept_when_the_application_has_dropped_the_content() -> None:
    talk = Talk()
    assert talk.connect() == Hello("token", "laptop", erasures=0)
    talk.hear(erased(n=0))
    talk.hear(erased("bob", n=4))
    talk.conversation.lost()
    assert talk.connect() == Hello("token", "laptop", "e", erasures=4), "it waits in the queue"
    talk.save()
    assert Talk(talk.storage).connect() == Hello("token", "laptop", "e", erasures=0)
    await talk.take(2)
    talk.save()
    assert Talk(talk.storage).connect() == Hello("token", "laptop", "e", erasures=4)


async def test_all_content_may_have_to_go() -> None:
    talk = Talk()
    talk.connect(live=False)
    talk.hear(ErasedFrame(9, all=True))
    (event,) = await talk.take(1)
    assert isinstance(event, ContentErased)
    assert event.all
    assert event.covers("anybody", NOON)
    talk.hear(*messages(1, 1))
    assert contents(list(await talk.take(1))) == [("number 1", None)], "the server knows better now"


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AUTHORS_MAX", 2)
    talk = Talk()
    talk.connect(live=False)
    other = bytes(16)
    talk.hear(erased("ann", n=1, salt=other), erased("bob", n=2))
    talk.hear(message(1, "d"))
    assert contents(list(await talk.take(3))) == [(None, "erased")]
    talk.hear(erased("carol", n=3))
    assert list(talk.conversation.erasures._authors) == [SALT]
    talk.hear(message(1, sender="ann"), message(2, sender="carol"))
    assert contents(list(await talk.take(3))) == [("number 1", None), (None, "erased")]
