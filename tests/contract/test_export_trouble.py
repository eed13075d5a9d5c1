# SPDX-License-Identifier: Apache-2.0
"""Moving between engines: an export is what it says, and what is damaged is not opened."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.contract.builders import a_chat, append, message
from tests.contract.moving_ground import (
    LATER,
    FolderPlace,
    Place,
    export_from,
    fill,
    import_into,
    lines_of,
)
from tests.contract.moving_places import Places, new_small_export, small_export
from tests.support.users import ANN
from tidings.actions.export.exporting import ChangedDuringExport, Tally, encode, export_all
from tidings.actions.export.importing import Damaged, check
from tidings.model.ids import ChatId
from tidings.model.setup_error import SetupError
from tidings.ports.export_engines import Source
from tidings.ports.export_facts import Fact
from tidings.ports.log import Kept


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_an_export_names_what_changed_meanwhile(places: Places) -> None:
    async with places.new("dynamodb") as place, place.open() as store:
        moving, resting = await a_chat(store), await a_chat(store)
        made: list[ChatId] = []

        async def write() -> None:
            assert await append(store, moving, message(ANN)) == Kept()
            made.append((await a_chat(store)).chat_id)

        async with place.source() as source:
            written: list[bytes] = []
            with pytest.raises(ChangedDuringExport) as changed:
                disturbed = _Disturbed(source, write)
                await export_all(disturbed, LATER, written.append, lambda _: None)
        assert sorted(changed.value.names) == sorted([moving.chat_id, *made])
        assert resting.chat_id in str(written), "it was whole, and is of no use all the same"
        with pytest.raises(Damaged, match="the end is missing"):
            check(lines_of(b"".join(written)))


class _Disturbed:
    """A source that somebody writes to once all of it was read."""

    def __init__(self, source: Source, write: Callable[[], Awaitable[None]]) -> None:
        self._source = source
        self._write = write
        self.epoch = source.epoch

    async def facts(self, now: int, after: ChatId | None = None) -> AsyncIterator[Sequence[Fact]]:
        async for some in self._source.facts(now):
            yield some
        await self._write()

    async def changed(self) -> list[str]:
        return await self._source.changed()


async def test_a_damaged_file_is_refused(places: Places) -> None:
    lines = lines_of(await small_export(places))
    head, *middle, end = lines
    whole = [head, *middle, end]
    check(whole)
    chat = next(i for i, line in enumerate(whole) if line.startswith(b'{"fact":"chat"'))
    entry = next(i for i, line in enumerate(whole) if line.startswith(b'{"fact":"entry"'))
    damages = {
        "the end is missing": [whole[:-1], [], [*whole[:-1], end[:-1]]],
        "an export begins": [whole[1:]],
        "version": [[head.replace(b'"version":5', b'"version":6'), *whole[1:]]],
        "the end says": [[*whole[:-2], end]],
        "digest": [[head, middle[0].replace(b"hello", b"hellO"), *middle[1:], end]],
        "after the end": [[*whole, head]],
        "another export": [[head, head, *middle, end]],
        "may follow": [whole[:entry] + whole[entry + 1 :], whole[:chat] + whole[chat + 1 :]],
        "JSON": [[head, b"{" + middle[0], *middle[1:], end]],
    }
    for reason, files in damages.items():
        for lines in files:
            with pytest.raises(Damaged, match=reason):
                check(lines)


def with_a_right_end(lines: list[bytes]) -> list[bytes]:
    """Lines that somebody changed, with the counts and the digest made right."""
    tally = Tally()
    for line in lines[:-1]:
        tally.add(line)
        fact = json.loads(line)["fact"]
        if fact != "tidings-export":
            tally.counts[fact] += 1
    return [*lines[:-1], encode(tally.closing()) + b"\n"]


@pytest.mark.attack("S29", "H08")
@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("user", "user_id", "acme:../../root"),
        ("user", "user_id", "ann"),
        ("user", "user_id", "acme:a#b"),
        ("chat", "chat_id", "../01HZZZZZZZZZZZZZZZZZZZZZ"),
        ("chat", "tenant", "other"),
        ("chat", "creator", "acme:"),
        ("member", "user_id", "other:ann"),
        ("entry", "sender", "other:ann"),
        ("entry", "client_message_id", "m#1"),
        ("entry", "mark", "x\u0000"),
        ("send_key", "sender", "acme:ann\n"),
    ],
)
async def test_an_id_that_no_request_could_bring_is_refused(
    places: Places, kind: str, field: str, value: str
) -> None:
    lines = lines_of(await small_export(places))
    check(with_a_right_end(lines))
    at = next(
        index
        for index, line in enumerate(lines)
        if json.loads(line)["fact"] == kind and field in json.loads(line)
    )
    lines[at] = json.dumps({**json.loads(lines[at]), field: value}).encode() + b"\n"
    with pytest.raises(Damaged, match="impossible value"):
        check(with_a_right_end(lines))


async def test_what_a_damaged_stream_leaves_is_not_opened(place: Place, places: Places) -> None:
    export = await small_export(places)
    cut = export[: export.rindex(b'{"fact":"end"')]
    with pytest.raises(Damaged):
        await import_into(place, cut)
    with pytest.raises(SetupError, match="not finished"):
        async with place.open():
            pass
    await import_into(place, export)
    assert await export_from(place) == export


async def test_the_format_is_what_is_written_down(places: Places) -> None:
    lines = [json.loads(line) for line in lines_of(await small_export(places))]
    assert list(lines[0]) == ["fact", "version", "epoch"]
    assert lines[0]["version"] == 5
    kinds = list(dict.fromkeys(line["fact"] for line in lines))
    assert kinds == ["tidings-export", "user", "chat", "member", "entry", "send_key", "end"]
    entry = next(line for line in lines if line["fact"] == "entry" and line["kind"] == "message")
    assert list(entry) == [
        "fact", "chat_id", "sequence", "kind", "sender", "created_at", "number", "last_message",
        "active_at", "mark", "client_message_id", "content_type", "box", "box_key", "expires_at",
    ]  # fmt: skip


async def test_nothing_of_an_engine_is_in_an_export(places: Places) -> None:
    first, second = [await new_small_export(places, "hello") for _ in range(2)]
    assert first != second, "another epoch, other chats"
    for word in (b"sqlite", b"dynamodb", b"ttl", b"body_id"):
        assert word not in first


@pytest.mark.usefixtures("dynamodb_endpoint")
async def test_an_export_of_nothing_is_refused_or_empty(places: Places, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no store"):
        await export_from(FolderPlace(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
    async with places.new("dynamodb") as place:
        with pytest.raises(SetupError, match="empty"):
            await export_from(place)


async def test_exports_are_told_of_as_they_go(places: Places) -> None:
    async with places.new("sqlite") as place:
        async with place.open() as store:
            await fill(store)
        told: list[int] = []
        async with place.source() as source:
            await export_all(source, LATER, lambda _: None, lambda tally: told.append(tally.lines))
    assert told == sorted(told)
    assert told
