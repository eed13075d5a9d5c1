# SPDX-License-Identifier: Apache-2.0
"""Files: uploaded in parts over lines that break, sent, and downloaded."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from clients.python.tests.test_api import Hurry
from clients.python.tests.test_client import a_client, a_direct_chat, shown
from tests.support.people import Town
from tests.support.waiting import until
from tidings_client import Attachment, FileStorage, Message, Refused, Thumbnail, Unavailable
from tidings_client.api import Api
from tidings_client.files import OFFSET
from tidings_client.saved import Changes, Outgoing
from tidings_client.tokens import Tokens

LARGE = bytes(range(256)) * 18_000
"""More than one part."""


async def test_a_file_goes_from_user_to_user(town: Town, tmp_path: Path) -> None:
    chat = await a_direct_chat(town)
    path = tmp_path / "trip.mp4"
    path.write_bytes(LARGE)
    seen: list[tuple[int, int]] = []
    async with shown(client := a_client(town)) as screen, a_client(town, "bob") as bob:
        file = await client.api.files.upload(
            path,
            "Video/MP4; codecs=avc1.42E01E",
            width=640,
            height=480,
            thumbnail=("image/WebP", b"small"),
            progress=lambda done, size: seen.append((done, size)),
        )
        thumbnail = Thumbnail("image/webp", 5)
        assert file == Attachment(
            file.attachment_id, "trip.mp4", "video/mp4", len(LARGE), 640, 480, thumbnail
        )
        assert len(seen) == 2 and seen[-1] == (len(LARGE), len(LARGE))
        sent = await client.send(chat, "", attachments=[file])
        await screen.until(lambda: screen.last(chat) == sent.sequence)
        own = screen.shown[chat][-1]
        assert isinstance(own, Message) and own.attachments == (file,)

        files = bob.api.files
        assert (await bob.api.message(chat, sent.sequence)).attachments == [file]
        entry = (await bob.history(chat)).entries[-1]
        assert isinstance(entry, Message) and entry.attachments == (file,)
        where = (chat, sent.sequence, file.attachment_id)
        assert b"".join([data async for data in files.download(*where)]) == LARGE
        rest = [data async for data in files.download(*where, start=4_000_000)]
        assert b"".join(rest) == LARGE[4_000_000:]
        assert await files.thumbnail(*where) == b"small"
        link = await files.link(*where, thumbnail=True)
        assert (await town.http.get(link.url)).content == b"small"
        with pytest.raises(Refused, match=r"attachment.not_found"):
            await anext(files.download(chat, sent.sequence, "0" * 26))
        with pytest.raises(Refused, match=r"attachment.used"):
            await client.send(chat, "again", attachments=[file])


async def test_an_upload_cut_off_a_hundred_times_ends_whole(town: Town) -> None:
    chat = await a_direct_chat(town)
    alice = await town.user("alice")
    own = {"Authorization": f"Bearer {alice.token}"}
    data = LARGE[:2_000_000]
    wish = {"name": "a", "content_type": "audio/ogg", "size": len(data)}
    made = (await town.http.post("/v1/attachments", json=wish, headers=own)).json()
    offset = 0
    for cut in range(100):
        length, piece = len(data) - offset, data[offset : offset + 17_000 + cut]
        await cut_off(town.url, made["upload_url"], own, offset, length, piece)

        async def has_arrived(end: int = offset + len(piece)) -> bool:
            answer = await town.http.head(made["upload_url"], headers=own)
            return int(answer.headers[OFFSET]) == end

        await until(has_arrived)
        offset += len(piece)
    last = {**own, OFFSET: str(offset)}
    answer = await town.http.patch(made["upload_url"], content=data[offset:], headers=last)
    assert answer.headers[OFFSET] == str(len(data))
    async with a_client(town) as client:
        file = Attachment(made["attachment_id"], "a", "audio/ogg", len(data))
        sent = await client.send(chat, "", attachments=[file])
        read = client.api.files.download(chat, sent.sequence, file.attachment_id)
        assert b"".join([some async for some in read]) == data


async def cut_off(
    url: str, path: str, own: dict[str, str], offset: int, length: int, data: bytes
) -> None:
    """Send some bytes of an upload that promises more, and end the connection."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = [f"PATCH {path} HTTP/1.1", f"Host: {where.netloc}", f"Content-Length: {length}"]
    head += [f"{name}: {value}" for name, value in (*own.items(), (OFFSET, str(offset)))]
    writer.write("\r\n".join([*head, "", ""]).encode() + data)
    writer.write_eof()
    await reader.read()
    writer.close()


def answering(*answers: httpx.Response | Exception) -> Api:
    """An API whose server gives these answers, one after the other."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        following = left.pop(0)
        if isinstance(following, Exception):
            raise following
        return following

    world = Hurry()
    tokens = Tokens(lambda: "t", world.wall)
    return Api("http://t", tokens, world, transport=httpx.MockTransport(answer))


MADE = httpx.Response(
    201, json={"attachment_id": "a", "upload_url": "/v1/attachments/a", "chunk_bytes": 4}
)


async def test_a_lost_part_is_sent_again_from_where_the_server_is() -> None:
    at = [httpx.Response(200, headers={OFFSET: str(n)}) for n in (2, 3)]
    conflict = httpx.Response(409, json={"code": "attachment.offset", "detail": "-"})
    lost = httpx.Response(502, headers={"Retry-After": "0"})
    done = httpx.Response(204, headers={OFFSET: "5"})
    api = answering(MADE, lost, at[0], httpx.ReadError("cut"), at[0], conflict, at[1], done)
    file = await api.files.upload(b"12345", "text/plain", name="five.txt")
    assert (file.name, file.size) == ("five.txt", 5)
    await api.close()


async def test_what_the_server_declines_is_not_sent_again() -> None:
    gone = httpx.Response(410, json={"code": "attachment.gone", "detail": "-"})
    api = answering(MADE, gone)
    with pytest.raises(Refused, match=r"attachment.gone"):
        await api.files.upload(b"12345", "text/plain")
    await api.close()


class Broken(httpx.AsyncByteStream):
    """A body whose connection is lost after the first bytes."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"first"
        raise httpx.ReadError("cut")


async def test_a_download_that_breaks_says_so() -> None:
    api = answering(httpx.Response(200, stream=Broken()))
    download = api.files.download("c", 1, "a")
    assert await anext(download) == b"first"
    with pytest.raises(Unavailable):
        await anext(download)
    await api.close()


@pytest.mark.parametrize("status", [429, 503, 502])
async def test_a_download_for_which_there_is_no_room_now_begins_later(status: int) -> None:
    def busy() -> httpx.Response:
        return httpx.Response(status, json={"code": "c"}, headers={"Retry-After": "0"})

    api = answering(busy(), httpx.ReadError("cut"), httpx.Response(200, content=b"whole"))
    assert b"".join([data async for data in api.files.download("c", 1, "a")]) == b"whole"
    await api.close()
    api = answering(busy(), busy(), busy())
    with pytest.raises(Unavailable):
        await anext(api.files.download("c", 1, "a"))
    await api.close()


def test_the_outbox_remembers_attachments(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "a.db")
    file = Attachment("a", "a.png", "image/png", 5, 1, 2, Thumbnail("image/png", 3))
    message = Outgoing("c", "m", "", 1, attachments=(file,))
    storage.load()
    storage.save(Changes(posted={message.key: message}))
    storage.close()
    assert storage.load().outbox == [message]
    storage.close()
