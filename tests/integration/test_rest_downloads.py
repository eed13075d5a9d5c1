# SPDX-License-Identifier: Apache-2.0
"""Attachments over REST: whole and partial reads, links, limits, and damaged files."""

from contextlib import ExitStack

import pytest

from tests.integration.attachments import PNG, Talk, blobs_of, of, sent, some_bytes, upload
from tests.integration.attachments import talk as talk
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Rest, problem
from tests.support.turns import counted_turns
from tidings.actions.attachments.downloading import CHECKED_MS, FRAMES_AT_ONCE, FilePlace
from tidings.actions.attachments.sealing import SEALED_FRAME_BYTES
from tidings.model.attachments import FRAME_BYTES, PART_BYTES, USER_DOWNLOADS_AT_ONCE_MAX
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_file_is_sent_and_read_whole_and_in_part(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    data = some_bytes(PART_BYTES + FRAME_BYTES + 1_000)
    file = await upload(ann, data)
    message = await sent(ann, chat, "m1", file)
    record = {**PNG, "attachment_id": file, "size": len(data)}
    assert (message["content"], message["attachments"]) == ("", [record])
    page = await ben.ok("GET", f"/v1/chats/{chat}/messages")
    assert page["data"][0]["attachments"] == [record]
    entries = await ben.ok("GET", f"/v1/chats/{chat}/entries")
    assert entries["data"][-1]["attachments"] == [record]

    whole = await ben.call("GET", of(chat, message, file))
    assert (whole.status_code, whole.content) == (200, data)
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]
    assert whole.headers["content-disposition"] == "inline; filename*=UTF-8''cat.png"
    assert whole.headers["cache-control"] == "no-store"

    size = len(data)
    for asked, span in {
        "bytes=0-0": (0, 1),
        "bytes=0-": (0, size),
        f"bytes={FRAME_BYTES - 1}-{FRAME_BYTES}": (FRAME_BYTES - 1, FRAME_BYTES + 1),
        f"bytes={PART_BYTES - 3}-{PART_BYTES + 2}": (PART_BYTES - 3, PART_BYTES + 3),
        f"bytes=5-{size + 9}": (5, size),
        "bytes=-7": (size - 7, size),
        f"bytes=-{size + 1}": (0, size),
    }.items():
        answer = await ben.call("GET", of(chat, message, file), headers={"Range": asked})
        assert (answer.status_code, answer.content) == (206, data[slice(*span)]), asked
        assert answer.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/{size}"
    for ignored in ("bytes=2-1", "bytes=", "lines=1-2", "bytes=0-1,3-4", "bytes=a-b"):
        answer = await ben.call("GET", of(chat, message, file), headers={"Range": ignored})
        assert answer.status_code == 200, ignored
    for beyond in (f"bytes={size}-", "bytes=-0", "bytes=99999999999-"):
        answer = await ben.call("GET", of(chat, message, file), headers={"Range": beyond})
        assert problem(answer) == (416, "attachment.range")
        assert answer.headers["content-range"] == f"bytes */{size}"
    tag = whole.headers["etag"]
    for condition, status in ((tag, 206), ('"other"', 200)):
        headers = {"Range": "bytes=0-1", "If-Range": condition}
        assert (await ben.call("GET", of(chat, message, file), headers=headers)).status_code == (
            status
        )


async def test_what_could_run_scripts_is_downloaded(talk: Talk) -> None:
    chat, ann, ben = talk
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    for kind in ("image/svg+xml", "text/html", "application/pdf", "application/xhtml+xml"):
        file = await upload(ann, svg, content_type=kind, name='a"b;ü.svg')
        message = await sent(ann, chat, f"m-{kind.replace('/', '-').replace('+', '-')}", file)
        answer = await ben.call("GET", of(chat, message, file))
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == (
            "attachment; filename*=UTF-8''a%22b%3B%C3%BC.svg"
        )
        assert "sandbox" in answer.headers["content-security-policy"]


async def test_a_link_ends_with_the_rights_of_its_user(rest: Rest) -> None:
    tenant = await rest.tenant()
    gus, hal = await rest.users("gus", "hal")
    chat = await gus.group("hal")
    file = await upload(gus, b"secret")
    message = await sent(gus, chat, "m1", file)
    nobody, gone = rest.nobody, (404, "attachment.not_found")

    async def link() -> str:
        return str((await hal.ok("POST", of(chat, message, file, "/link")))["url"])

    url = await link()
    assert (await nobody.call("GET", url)).content == b"secret"
    await tenant.ok("PUT", "/v1/tenants/acme/users/hal", {"deactivated": True})
    assert await nobody.refused("GET", url) == gone
    rest.clock.time += 2_000
    await tenant.ok("PUT", "/v1/tenants/acme/users/hal", {"deactivated": False})
    hal = await rest.user("hal")
    url = await link()
    assert (await nobody.call("GET", url)).content == b"secret"
    await rest.root.ok("PUT", "/v1/tenants/acme", {"suspended": True})
    try:
        assert await nobody.refused("GET", url) == gone
    finally:
        await rest.root.ok("PUT", "/v1/tenants/acme", {"suspended": False})


async def test_a_link_ends_with_its_time_and_with_the_membership(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"data")
    message = await sent(ann, chat, "m1", file)
    link = (await ben.ok("POST", of(chat, message, file, "/link")))["url"]
    other = (await ann.ok("POST", of(chat, message, file, "/link")))["url"]
    nobody = rest.nobody
    answer = await nobody.call("GET", link, headers={"Range": "bytes=1-2"})
    assert (answer.status_code, answer.content) == (206, b"at")
    whole = await nobody.call("GET", link)
    for condition, status in ((whole.headers["etag"], 206), ('"other"', 200)):
        headers = {"Range": "bytes=1-2", "If-Range": condition}
        assert (await nobody.call("GET", link, headers=headers)).status_code == status
    changed = link[:-9] + ("A" if link[-9] != "A" else "B") + link[-8:]
    assert await nobody.refused("GET", changed) == (404, "attachment.not_found")
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    assert await nobody.refused("GET", link) == (404, "chat.not_found")
    assert (await nobody.call("GET", other)).status_code == 200
    rest.clock.time += 300_000
    assert await nobody.refused("GET", other) == (404, "attachment.not_found")


async def test_reading_ends_when_the_reader_is_removed(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    file = await upload(ann, some_bytes(PART_BYTES))
    message = await sent(ann, chat, "m1", file)
    place = FilePlace(UserKey("acme:ben"), ChatId(chat), message["sequence"], file)
    found = await rest.core.files.read(place)
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    rest.clock.time += CHECKED_MS
    read = 0
    with pytest.raises(ChatNotFound):
        async for data in found.data:
            read += len(data)
    assert read == FRAMES_AT_ONCE * FRAME_BYTES


async def test_others_have_their_turn_while_a_fast_reader_gets_a_file(
    rest: Rest, talk: Talk
) -> None:
    chat, ann, _ = talk
    file = await upload(ann, some_bytes(PART_BYTES))
    message = await sent(ann, chat, "m1", file)
    place = FilePlace(UserKey("acme:ben"), ChatId(chat), message["sequence"], file)
    found = await rest.core.files.read(place)
    async with counted_turns() as turns:
        turns_at = [turns[0] async for _ in found.data]
    assert len(turns_at) == PART_BYTES // (FRAMES_AT_ONCE * FRAME_BYTES)
    assert sorted(set(turns_at)) == turns_at


async def test_transfers_at_once_are_limited(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    file = await upload(ann, b"x")
    message = await sent(ann, chat, "m1", file)
    transfers = rest.core.files.read.transfers
    with ExitStack() as stack:
        for _ in range(USER_DOWNLOADS_AT_ONCE_MAX):
            stack.enter_context(transfers.download(UserKey("acme:ann")))
        assert await ann.refused("GET", of(chat, message, file)) == (429, "rate.limited")
    assert not transfers._downloads._of_users, "whatever has ended is not counted any more"
    assert not transfers._downloads._of_tenants


async def test_damaged_bytes_are_not_served(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"x" * 100)
    message = await sent(ann, chat, "m1", file)
    (blob,) = blobs_of(rest, file)
    stored = blob.read_bytes()
    blob.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
    assert await ben.refused("GET", of(chat, message, file)) == (410, "attachment.lost")
    blob.unlink()
    assert await ben.refused("GET", of(chat, message, file)) == (410, "attachment.lost")


@pytest.mark.parametrize("frames", [0, 1, 2])
async def test_a_file_that_lacks_frames_is_not_served(
    rest: Rest, talk: Talk, frames: int, caplog: pytest.LogCaptureFixture
) -> None:
    chat, ann, ben = talk
    file = await upload(ann, some_bytes(3 * FRAME_BYTES))
    message = await sent(ann, chat, "m1", file)
    (blob,) = blobs_of(rest, file)
    blob.write_bytes(blob.read_bytes()[: frames * SEALED_FRAME_BYTES])
    assert await ben.refused("GET", of(chat, message, file)) == (410, "attachment.lost")
    assert "is missing or too short" in caplog.text
    beginning = await ben.call("GET", of(chat, message, file), headers={"Range": "bytes=0-99"})
    assert beginning.status_code == (206 if frames else 410)
