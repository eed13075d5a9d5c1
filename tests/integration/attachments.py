# SPDX-License-Identifier: Apache-2.0
"""Uploads and attachments for the suites that are about them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.rest_world import Actor, Json, Rest
from tidings.actions.attachments.uploading import Cut
from tidings.actions.chat.deleting import Sweeper
from tidings.model.ids import UserKey

PNG = {"name": "cat.png", "content_type": "image/png", "width": 4, "height": 3}
Talk = tuple[str, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of two."""
    ann, ben = await rest.users("ann", "ben")
    return await ann.group("ben"), ann, ben


def some_bytes(size: int) -> bytes:
    """Bytes that differ from part to part and from frame to frame."""
    return b"".join(n.to_bytes(4, "big") for n in range(-(-size // 4)))[:size]


async def start(user: Actor, size: int, **more: Any) -> Json:
    made: Json = await user.ok("POST", "/v1/attachments", {**PNG, "size": size, **more})
    return made


async def upload(user: Actor, data: bytes, **more: Any) -> str:
    """The id of a whole upload."""
    made = await start(user, len(data), **more)
    answer = await user.call("PUT", made["upload_url"], content=data)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(len(data)))
    return str(made["attachment_id"])


async def offset(user: Actor, attachment: str) -> int:
    answer = await user.call("HEAD", f"/v1/attachments/{attachment}")
    assert answer.status_code == 200, answer.headers
    return int(answer.headers["upload-offset"])


async def sent(user: Actor, chat: str, cmid: str, *attachments: str, text: str = "") -> Json:
    return await user.send(chat, cmid, text, attachments=list(attachments))


def of(chat: str, message: Json, attachment: str, more: str = "") -> str:
    return f"/v1/chats/{chat}/messages/{message['sequence']}/attachments/{attachment}{more}"


def blobs_of(rest: Rest, attachment: str) -> list[Path]:
    folder: Path = rest.core.files.sweep.blobs._folder  # type: ignore[attr-defined]
    return list(folder.glob(f"*/{attachment}/*"))


async def cut_off(rest: Rest, owner: str, file: str, at: int, data: bytes) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield data
        raise Cut

    with pytest.raises(Cut):
        await rest.core.files.receive(UserKey(owner), file, at, pieces(), None)


async def sweep(rest: Rest) -> None:
    await Sweeper(rest.core.store.sweeping, rest.core.bus, rest.clock).sweep()
    await rest.core.files.sweep.sweep()
