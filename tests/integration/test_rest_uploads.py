# SPDX-License-Identifier: Apache-2.0
"""Uploads over REST: in one piece and in several, thumbnails, and what is refused."""

import asyncio
import json
from urllib.parse import unquote

import pytest

from tests.integration.attachments import (
    PNG,
    Talk,
    blobs_of,
    cut_off,
    of,
    offset,
    sent,
    some_bytes,
    start,
    sweep,
    upload,
)
from tests.integration.attachments import talk as talk
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Json, Rest, problem
from tidings.model import attachments
from tidings.model.attachments import LATE_BYTES_MS, UPLOAD_MS
from tidings.model.limits import DAY_MS

SPACES = [
    " ", "\u00a0", "\u1680", *map(chr, range(0x2000, 0x200B)), "\u202f", "\u205f", "\u3000"
]  # fmt: skip
JOINERS = ["\u200c", "\u200d"]
REFUSED_IN_NAMES = (
    *"\0\t\n\x1f\x7f\x85",  # controls
    *"\u2028\u2029",  # separators of lines and paragraphs
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",  # directions
    *"\u200b\u2060\ufeff",  # invisible
)

MALFORMED_TYPES = (
    *("", "png", "image/", "/png", "image/png/x", " image/png", "image /png", "image/*"),
    *("image/png; a", "image/png; =b", "image/png; a=", "image/png a=b", "image/png, image/gif"),
    *('image/png; a="b', 'image/png; a="b"c', "image/png; a = b", "image/png\n", "image/png;\n"),
    *("image/\u212aelvin", "image/png; a=\u00fc", f"image/{'n' * 64}", f"a/b{'; ' * 127}"),
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_upload_goes_on_where_it_was_cut_off(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    data = some_bytes(300_000)
    made = await start(ann, len(data))
    url, file = made["upload_url"], made["attachment_id"]

    # The transport of these tests cannot cut a connection: the verb gets what a cut one gives.
    while (at := await offset(ann, file)) < 200_000:
        await cut_off(rest, "acme:ann", file, at, data[at : at + 40_000])
    assert problem(
        await ann.call("PATCH", url, content=data[5:], headers={"Upload-Offset": "5"})
    ) == (409, "attachment.offset")
    assert problem(await ann.call("PATCH", url, content=data)) == (400, "request.invalid")
    rest_of_it = {"Upload-Offset": str(at)}
    assert problem(await ann.call("PATCH", url, content=data[at:] + b"x", headers=rest_of_it)) == (
        413,
        "attachment.too_large",
    )
    answer = await ann.call("PATCH", url, content=data[at:], headers=rest_of_it)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(len(data)))
    repeated = await ann.call("PATCH", url, headers={"Upload-Offset": str(len(data))})
    assert repeated.status_code == 204

    message = await sent(ann, chat, "m1", file)
    assert (await ben.call("GET", of(chat, message, file))).content == data


async def test_an_upload_has_a_bounded_number_of_short_parts(
    rest: Rest, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "SHORT_PARTS_MAX", 3)
    _, ann, _ = talk
    made = await start(ann, 10)
    url, file = made["upload_url"], made["attachment_id"]
    answers = [
        await ann.call("PATCH", url, content=b"x", headers={"Upload-Offset": str(at)})
        for at in range(4)
    ]
    assert [one.status_code for one in answers] == [204, 204, 204, 400]
    assert (await offset(ann, file), len(blobs_of(rest, file))) == (3, 3)
    rest_of_it = await ann.call("PATCH", url, content=b"x" * 7, headers={"Upload-Offset": "3"})
    assert rest_of_it.status_code == 204
    assert await offset(ann, file) == 10


async def test_a_second_put_replaces_what_a_first_one_began(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    made = await start(ann, 100_000)
    file = made["attachment_id"]
    await cut_off(rest, "acme:ann", file, 0, b"a" * 50_000)
    answer = await ann.call("PUT", made["upload_url"], content=b"b" * 100_000)
    assert answer.status_code == 204
    assert len(blobs_of(rest, file)) == 1
    message = await sent(ann, chat, "m1", file)
    assert (await ann.call("GET", of(chat, message, file))).content == b"b" * 100_000
    # A whole upload does not change any more.
    assert (await ann.call("PUT", made["upload_url"], content=b"c" * 9)).status_code == 204
    assert (await ann.call("GET", of(chat, message, file))).content == b"b" * 100_000


async def test_of_two_requests_at_once_one_goes_on(rest: Rest, talk: Talk) -> None:
    _, ann, _ = talk
    made = await start(ann, 20)
    url, first = made["upload_url"], {"Upload-Offset": "0"}
    answers = await asyncio.gather(
        *(ann.call("PATCH", url, content=bytes([n]) * 20, headers=first) for n in range(3))
    )
    assert sorted(one.status_code for one in answers) in ([204, 409, 409], [204, 204, 409])
    assert await offset(ann, made["attachment_id"]) == 20
    assert len(blobs_of(rest, made["attachment_id"])) == 1


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"name": ""}, (400, "request.invalid")),
        ({"name": "../a"}, (400, "request.invalid")),
        ({"name": "a\\b"}, (400, "request.invalid")),
        ({"name": "a\r\nSet-Cookie: b"}, (400, "request.invalid")),
        *(({"name": f"a{char}b"}, (400, "request.invalid")) for char in REFUSED_IN_NAMES),
        ({"name": "n" * 256}, (400, "request.invalid")),
        *(({"content_type": kind}, (400, "request.invalid")) for kind in MALFORMED_TYPES),
        ({"size": 0}, (400, "request.invalid")),
        ({"size": 100 * 2**20 + 1}, (413, "attachment.too_large")),
        ({"width": 0}, (400, "request.invalid")),
    ],
)
async def test_bad_uploads_are_refused(talk: Talk, change: Json, answer: tuple[int, str]) -> None:
    _, ann, _ = talk
    assert await ann.refused("POST", "/v1/attachments", {**PNG, "size": 1, **change}) == answer


async def test_a_lone_surrogate_is_no_name(talk: Talk) -> None:
    _, ann, _ = talk
    body = json.dumps({**PNG, "size": 1, "name": "a\ud800b"}).encode()
    headers = {"Content-Type": "application/json"}
    answer = await ann.call("POST", "/v1/attachments", content=body, headers=headers)
    assert problem(answer) == (400, "request.invalid")


async def test_a_name_may_have_all_spaces_and_joiners(talk: Talk) -> None:
    chat, ann, ben = talk
    screenshot = "Screenshot 2026-11-18 at 9.41.07\u202fPM.png"
    names = [screenshot, "".join(["a", *SPACES, "b"]), "".join(["a", *JOINERS, "b"])]
    files = [await upload(ann, b"x", name=name) for name in names]
    message = await sent(ann, chat, "m1", *files)
    page = await ben.ok("GET", f"/v1/chats/{chat}/messages")
    for shown in (message, page["data"][0]):
        assert [one["name"] for one in shown["attachments"]] == names
    for file, name in zip(files, names, strict=True):
        given = (await ben.call("GET", of(chat, message, file))).headers["content-disposition"]
        assert given.isascii()
        assert unquote(given.removeprefix("inline; filename*=UTF-8''")) == name
    for words in ("9.41.07 pm", '"9 41 07 PM png"'):
        found = await ben.ok("POST", "/v1/search", {"q": words, "chat_id": chat})
        assert [one["message"]["sequence"] for one in found["data"]] == [message["sequence"]]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("text/plain; charset=utf-8", "text/plain"),
        ("audio/webm;codecs=opus", "audio/webm"),
        ('video/mp4 ; codecs="avc1.42E01E, mp4a.40.2";;', "video/mp4"),
        ('text/plain; name="a\\"b; c"', "text/plain"),
        ("image/JPEG", "image/jpeg"),
        (f"a/b{'; ' * 126}", "a/b"),
    ],
)
async def test_a_type_is_shown_in_lower_case_without_parameters(
    talk: Talk, given: str, shown: str
) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"x", content_type=given)
    message = await sent(ann, chat, "m1", file)
    page = await ben.ok("GET", f"/v1/chats/{chat}/messages")
    for one in (message, page["data"][0]):
        assert [file["content_type"] for file in one["attachments"]] == [shown]


async def test_a_tenant_says_what_may_be_uploaded(rest: Rest) -> None:
    tenant = await rest.tenant("strict")
    ann = await rest.user("ann", "strict")
    settings = {"attachments": {"types": ["image/*", "application/pdf"], "bytes_max": 1_000}}
    await tenant.ok("PUT", "/v1/tenants/strict/settings", settings)
    assert await ann.refused(
        "POST", "/v1/attachments", {**PNG, "size": 1, "content_type": "text/html"}
    ) == (415, "attachment.type")
    assert await ann.refused("POST", "/v1/attachments", {**PNG, "size": 1_001}) == (
        413,
        "attachment.too_large",
    )
    for allowed in ("application/pdf", "Application/PDF; version=1.7", "IMAGE/png"):
        await start(ann, 1_000, content_type=allowed)
    bad = {"attachments": {"types": ["everything"]}}
    assert await tenant.refused("PUT", "/v1/tenants/strict/settings", bad) == (
        400,
        "request.invalid",
    )
    await rest.core.quotas.add_up()  # what was uploaded without a quota does not count
    quotas = {"quotas": {"attachment_bytes_per_day": 1_500}}
    await rest.root.ok("PUT", "/v1/tenants/strict", quotas)
    rest.clock.time += 10_000
    await start(ann, 900)
    assert await ann.refused("POST", "/v1/attachments", {**PNG, "size": 900}) == (
        429,
        "quota.reached",
    )


async def test_the_first_upload_of_a_tenant_keeps_its_quota(rest: Rest) -> None:
    await rest.tenant("frugal")
    await rest.root.ok("PUT", "/v1/tenants/frugal", {"quotas": {"attachment_bytes_per_day": 10}})
    ann = await rest.user("ann", "frugal")
    reached = (429, "quota.reached")
    assert await ann.refused("POST", "/v1/attachments", {**PNG, "size": 11}) == reached
    twice = [ann.call("POST", "/v1/attachments", {**PNG, "size": 6}) for _ in range(2)]
    assert sorted([one.status_code for one in await asyncio.gather(*twice)]) == [201, 429]
    await start(ann, 4)
    assert await ann.refused("POST", "/v1/attachments", {**PNG, "size": 1}) == reached


async def test_thumbnails_count_in_the_quota_and_have_the_size_of_the_tenant(rest: Rest) -> None:
    tenant = await rest.tenant("small")
    settings = {"attachments": {"types": ["application/pdf"], "bytes_max": 800}}
    await tenant.ok("PUT", "/v1/tenants/small/settings", settings)
    await rest.root.ok("PUT", "/v1/tenants/small", {"quotas": {"attachment_bytes_per_day": 1_000}})
    ann = await rest.user("ann", "small")
    made = await start(ann, 100, content_type="application/pdf")
    path = f"{made['upload_url']}/thumbnail"

    async def put(size: int) -> tuple[int, str]:
        answer = await ann.call("PUT", path, content=b"x" * size)
        return (204, "") if answer.status_code == 204 else problem(answer)

    assert await put(801) == (413, "attachment.too_large")
    assert [await put(size) for size in (700, 800, 800, 600)] == [(204, "")] * 4
    assert await ann.refused(
        "POST", "/v1/attachments", {**PNG, "size": 301, "content_type": "application/pdf"}
    ) == (429, "quota.reached")
    await start(ann, 250, content_type="application/pdf")
    assert await put(700) == (429, "quota.reached")
    assert await put(650) == (204, "")


async def test_a_thumbnail_goes_with_its_file(talk: Talk) -> None:
    chat, ann, ben = talk
    file, plain = await upload(ann, b"large"), await upload(ann, b"none")
    path = f"/v1/attachments/{file}/thumbnail"
    webp = {"Content-Type": "image/webp"}
    for kind, data, answer in (
        ("image/svg+xml", b"x", (415, "attachment.type")),
        ("image/webp", b"", (400, "request.invalid")),
        ("image/webp", b"x" * 65_537, (413, "attachment.too_large")),
    ):
        headers = {"Content-Type": kind}
        assert problem(await ann.call("PUT", path, content=data, headers=headers)) == answer
    for data in (b"first", b"small"):
        assert (await ann.call("PUT", path, content=data, headers=webp)).status_code == 204
    message = await sent(ann, chat, "m1", file, plain)
    thumbnails = [one.get("thumbnail") for one in message["attachments"]]
    assert thumbnails == [{"content_type": "image/webp", "size": 5}, None]
    shown = await ben.call("GET", of(chat, message, file, "/thumbnail"))
    assert (shown.content, shown.headers["content-type"]) == (b"small", "image/webp")
    missing = of(chat, message, plain, "/thumbnail")
    assert await ben.refused("GET", missing) == (404, "attachment.not_found")
    late = await ann.call("PUT", path, content=b"late", headers=webp)
    assert problem(late) == (409, "attachment.used")
    link = await ben.ok("POST", of(chat, message, file, "/link"), {"thumbnail": True})
    whole = await ben.call("GET", link["url"])
    assert whole.content == b"small"
    some = {"Range": "bytes=1-2", "If-Range": whole.headers["etag"]}
    part = await ben.call("GET", link["url"], headers=some)
    assert (part.status_code, part.content) == (206, b"ma")


@pytest.mark.parametrize(
    "given", [None, "", "application/octet-stream", "Application/Octet-Stream; a=b"]
)
async def test_a_thumbnail_may_have_no_type(talk: Talk, given: str | None) -> None:
    chat, ann, ben = talk
    file = await upload(ann, b"large")
    path = f"/v1/attachments/{file}/thumbnail"
    for kind in ("text/html", "application/xhtml+xml", "image/svg+xml", "video/mp4", "x"):
        refused = await ann.call("PUT", path, content=b"x", headers={"Content-Type": kind})
        assert problem(refused) == (415, "attachment.type")
    headers = {} if given is None else {"Content-Type": given}
    stored = await ann.call("PUT", path, content=b"<script>", headers=headers)
    assert stored.status_code == 204
    message = await sent(ann, chat, "m1", file)
    [record] = message["attachments"]
    assert record["thumbnail"] == {"content_type": "application/octet-stream", "size": 8}
    link = await ben.ok("POST", of(chat, message, file, "/link"), {"thumbnail": True})
    for url in (of(chat, message, file, "/thumbnail"), link["url"]):
        shown = await ben.call("GET", url)
        assert (shown.status_code, shown.content) == (200, b"<script>")
        assert shown.headers["content-type"] == "application/octet-stream"
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert shown.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in shown.headers["content-security-policy"]


async def test_what_is_never_sent_dies(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    unsent, file = await upload(ann, b"x"), await upload(ann, b"y")
    message = await sent(ann, chat, "m1", file)
    stray = blobs_of(rest, file)[0].with_name("0" * 16)
    stray.write_bytes(b"left by a crash")
    rest.clock.time += UPLOAD_MS
    again = await rest.user("ann")
    assert (await again.call("HEAD", f"/v1/attachments/{unsent}")).status_code == 410
    await sweep(rest)
    assert len(blobs_of(rest, unsent)) == 1
    rest.clock.time += LATE_BYTES_MS
    await sweep(rest)
    assert (blobs_of(rest, unsent), len(blobs_of(rest, file))) == ([], 1)
    assert not stray.exists()
    assert (await again.call("HEAD", f"/v1/attachments/{unsent}")).status_code == 404
    rest.clock.time += 400 * DAY_MS
    ben = await rest.user("ben")
    assert (await ben.call("GET", of(chat, message, file))).content == b"y"
