# SPDX-License-Identifier: Apache-2.0
"""The web app as browsers get it: versions, caching, encodings and headers; and the demo."""

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import brotli
import httpx
import pytest
from starlette.routing import Router

from scripts.services import node_tools
from tests.integration.rest_world import Rest, open_rest, problem
from tidings.api.modules import bundle
from tidings.api.sign_in import SignIn
from tidings.api.web_app import FOLDERS, chosen_encoding, load_web_app
from tidings.assembly.demo import demo_of, make_demo
from tidings.assembly.rest import make_identity_verbs, make_rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT: Final = Path(__file__).parents[2]
APP: Final = load_web_app()
VERSION: Final = APP.version
ASSETS: Final = f"/assets/{VERSION}"
PAGES: Final = {
    "/": "text/html; charset=utf-8",
    "/console": "text/html; charset=utf-8",
    "/manifest.webmanifest": "application/manifest+json",
    "/sw.js": "text/javascript; charset=utf-8",
}
DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "br": brotli.decompress,
    "gzip": gzip.decompress,
}


async def raw(rest: Rest, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """An answer, and its body as it travelled."""
    named = {"accept-encoding": "identity"} | {k.replace("_", "-"): v for k, v in headers.items()}
    async with rest.http.stream("GET", path, headers=named) as answer:
        return answer, b"".join([part async for part in answer.aiter_raw()])


@pytest.mark.parametrize("path", APP.pages)
async def test_a_page_is_asked_for_again_each_time(rest: Rest, path: str) -> None:
    answer, body = await raw(rest, path)
    assert answer.headers["content-type"] == PAGES[path]
    assert answer.headers["cache-control"] == "no-cache"
    again, nothing = await raw(rest, path, if_none_match=f'"x", {answer.headers["etag"]}')
    assert (again.status_code, nothing) == (304, b"")
    assert again.headers["etag"] == answer.headers["etag"]
    changed, _ = await raw(rest, path, if_none_match='W/"x"')
    assert changed.status_code == 200
    assert body and b'"/assets/app/' not in body


@pytest.mark.parametrize("path", APP.pages)
async def test_all_that_a_page_names_is_there_for_ever(rest: Rest, path: str) -> None:
    _, body = await raw(rest, path)
    for name in re.findall(r'"(/assets/[^"]+)"', body.decode()):
        answer, _ = await raw(rest, name)
        assert (answer.status_code, name.split("/")[2]) == (200, VERSION), name
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("encoding", ["br", "gzip"])
async def test_a_file_is_compressed_for_those_who_can_read_it(rest: Rest, encoding: str) -> None:
    path = f"{ASSETS}/src/index.js"
    plain, whole = await raw(rest, path)
    answer, body = await raw(rest, path, accept_encoding=f"deflate, {encoding};q=0.9")
    assert "content-encoding" not in plain.headers
    assert answer.headers["content-encoding"] == encoding
    assert plain.headers["vary"] == answer.headers["vary"] == "Accept-Encoding"
    assert DECODERS[encoding](body) == whole
    assert len(body) < len(whole) / 3


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("GZIP;q=0.5", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br; q=0.000, gzip;q=0.0", "identity"),
        ("", "identity"),
        ("*, identity", "identity"),
        ("brotli, x-gzip, ,;", "identity"),
    ],
)
async def test_the_best_encoding_is_chosen(accepted: str, encoding: str) -> None:
    assert chosen_encoding(accepted) == encoding


@pytest.mark.parametrize("path", ["/", "/console"])
async def test_a_page_can_load_only_from_here(rest: Rest, path: str) -> None:
    answer, _ = await raw(rest, path)
    policy = dict(
        rule.strip().partition(" ")[::2]
        for rule in answer.headers["content-security-policy"].split(";")
    )
    assert policy.pop("default-src") == policy.pop("frame-ancestors") == "'none'"
    assert policy.pop("base-uri") == policy.pop("form-action") == "'none'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert policy.pop("trusted-types") == "tidings"
    # The web app also shows files that are not uploaded yet.
    local = {"img-src", "media-src"} if path == "/" else set()
    assert {policy.pop(name) for name in local} <= {"'self' blob:"}
    assert set(policy.values()) == {"'self'"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_version_that_is_not_ours_gets_the_file_but_not_for_ever(rest: Rest) -> None:
    _, body = await raw(rest, f"{ASSETS}/src/index.js")
    latest, same = await raw(rest, "/assets/latest/src/index.js")
    assert latest.headers["cache-control"] == "no-cache"
    assert same == body
    assert latest.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await raw(rest, "/"))[0].headers


@pytest.mark.attack("H14")
@pytest.mark.parametrize(
    "path",
    [
        f"{ASSETS}/src/../package.json",
        f"{ASSETS}/src/..%2fpackage.json",
        f"{ASSETS}/src/%2e%2e%2f%2e%2e%2fpackage.json",
        f"{ASSETS}/../../../../etc/passwd",
        f"{ASSETS}/test/support.js",
        f"{ASSETS}/src/",
        f"{ASSETS}/src",
        f"{ASSETS}/src/nowhere.js",
        f"{ASSETS}/src/index.js%00",
        f"{ASSETS}/src/index.js/",
        f"{ASSETS}//src/index.js",
        f"{ASSETS}/src/index.js%0a",
        "/assets/src/index.js",
        "/index.html",
    ],
)
async def test_nothing_else_can_be_reached(rest: Rest, path: str) -> None:
    answer = await rest.http.get(httpx.URL("http://tidings", raw_path=path.encode()))
    assert problem(answer) == (404, "not_found")


async def test_files_are_only_read(rest: Rest) -> None:
    for path in ("/", f"{ASSETS}/src/index.js"):
        assert problem(await rest.http.post(path)) == (405, "method.not_allowed")
        head = await rest.http.head(path, headers={"accept-encoding": "identity"})
        assert int(head.headers["content-length"]) == len((await raw(rest, path))[1])


def modules() -> Iterator[str]:
    for folder in FOLDERS:
        for file in sorted((node_tools.CLIENT / folder).glob("*.js")):
            yield f"{folder}/{file.name}"


async def test_every_module_can_be_joined_with_its_imports() -> None:
    sources = {path: (node_tools.CLIENT / path).read_text() for path in modules()}
    for path in sources:
        joined = bundle(sources, path)
        assert not re.search(r'^import[ {"]|@(param|type|returns)\b', joined, re.M), path


@pytest.mark.parametrize(
    ("files", "kib"),
    [
        (("elements/inbox.js",), 25),
        (("elements/bell.js",), 27),
        (("elements/chat.js",), 45),
        # These are loaded at their first use.
        (("elements/attachments.js",), 12),
        (("elements/account.js",), 7),
        (("elements/inbox_more.js",), 6),
        (("elements/sound.js",), 2),
        (("app/index.html", "app/app.js", "app/app.css", "app/sw.js", "app/icon.svg"), 60),
        (("console/index.html", "console/console.js", "console/console.css"), 30),
    ],
    ids=["inbox", "bell", "chat", "attachments", "account", "more", "sound", "app", "console"],
)
async def test_a_page_is_small(files: tuple[str, ...], kib: int) -> None:
    """Others load 150 to 550 KiB. With each file come some 600 bytes of headers."""
    forms = [await load_web_app().files[file].form("br") for file in files]
    assert sum(len(form) + 600 for form in forms) <= kib * 1_024


async def test_a_package_brings_the_same_files_as_a_clone(tmp_path: Path) -> None:
    build = f"from hatchling import build; build.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    ask = "from tidings.api import web_app; print(web_app.__file__, web_app.load_web_app().version)"
    said = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == [f"{tmp_path}/installed/tidings/api/web_app.py", VERSION]


# The demo.


@asynccontextmanager
async def demo_in(folder: Path, peer: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    """A server with the demo, and somebody at this address."""
    async with open_rest(folder) as rest:
        identity = make_identity_verbs(rest.core)
        await make_demo(rest.core, identity)
        sign_in = SignIn(True, demo_of(identity))
        app = make_rest(rest.core, rest.condition, identity, rest.state, sign_in=sign_in)
        async with client_of(app, peer) as client:
            yield client


def client_of(app: Router, peer: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(cast(Any, app), client=(peer, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")


async def bearer_of(client: httpx.AsyncClient, user: str) -> dict[str, str]:
    answer = await client.post("/demo/tokens", json={"user_id": user})
    assert answer.status_code == 201
    return {"Authorization": f"Bearer {answer.json()['token']}"}


async def chats_of(client: httpx.AsyncClient, user: str) -> list[dict[str, Any]]:
    bearer = await bearer_of(client, user)
    inbox = await client.get("/v1/inboxes/news/notifications", headers=bearer)
    assert inbox.json()["data"], "there are notifications"
    chats: list[dict[str, Any]] = (await client.get("/v1/chats", headers=bearer)).json()["data"]
    return chats


async def test_the_demo_is_made_once(tmp_path: Path) -> None:
    async with demo_in(tmp_path) as client:
        people = (await client.get("/app.json")).json()
        assert people == {
            "phone": True,
            "demo": [
                {"user_id": "alice", "display_name": "Alice"},
                {"user_id": "bob", "display_name": "Bob"},
                {"user_id": "carol", "display_name": "Carol"},
            ],
        }
        bob = await bearer_of(client, "bob")
        await client.patch("/v1/me", json={"display_name": "Robert"}, headers=bob)
        first = [await chats_of(client, user) for user in ("alice", "bob", "carol")]
    names = [{(chat["type"], chat["name"], *chat["members"]) for chat in mine} for mine in first]
    assert names == [
        {("direct", None, "bob"), ("group", "Lunch", "bob", "carol")},
        {("direct", None, "alice"), ("group", "Lunch", "alice", "carol")},
        {("group", "Lunch", "alice", "bob")},
    ]
    unread = [{chat["type"]: chat["unread"] for chat in mine} for mine in first]
    assert unread == [{"direct": 2, "group": 2}, {"direct": 0, "group": 1}, {"group": 0}]
    async with demo_in(tmp_path) as client:
        assert [await chats_of(client, user) for user in ("alice", "bob", "carol")] == first


async def test_half_a_demo_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("tidings.assembly.demo._notify", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            async with demo_in(tmp_path):
                pass
    async with demo_in(tmp_path) as client:
        assert len(await chats_of(client, "alice")) == 2


STRANGERS: Final = {
    "another machine": ("192.0.2.7", {}),
    "another machine with our name": ("192.0.2.7", {"host": "localhost:8080"}),
    "a name that points here": ("127.0.0.1", {"host": "evil.example:8080"}),
    "a name like ours": ("127.0.0.1", {"host": "localhost.evil.example"}),
    "a page of another site": ("127.0.0.1", {"origin": "http://evil.example"}),
    "a page on another port": ("127.0.0.1", {"origin": "http://127.0.0.1:3000"}),
    "a page from nowhere": ("127.0.0.1", {"origin": "null"}),
    "a proxy": ("127.0.0.1", {"x-forwarded-for": "192.0.2.7"}),
    "a proxy by standard": ("127.0.0.1", {"forwarded": "for=192.0.2.7"}),
}


@pytest.mark.attack("A20")
async def test_strangers_get_no_demo_person(tmp_path: Path) -> None:
    async with open_rest(tmp_path) as rest:
        identity = make_identity_verbs(rest.core)
        await make_demo(rest.core, identity)
        sign_in = SignIn(False, demo_of(identity))
        app = make_rest(rest.core, rest.condition, identity, rest.state, sign_in=sign_in)
        for stranger, (peer, headers) in STRANGERS.items():
            async with client_of(app, peer) as client:
                ways = await client.get("/app.json", headers=headers)
                assert ways.json() == {"phone": False, "demo": []}, stranger
                wish = {"json": {"user_id": "alice"}, "headers": headers}
                token = await client.post("/demo/tokens", **cast(Any, wish))
                assert problem(token) == (404, "not_found"), stranger


async def test_only_demo_people_get_a_token(tmp_path: Path) -> None:
    async with demo_in(tmp_path) as client:
        for host in ("localhost", "127.0.0.1:8080", "[::1]:8080"):
            headers = {"host": host, "origin": f"http://{host}"}
            made = await client.post("/demo/tokens", json={"user_id": "bob"}, headers=headers)
            assert made.status_code == 201
        other = await client.post("/demo/tokens", json={"user_id": "dave"})
        assert problem(other) == (404, "not_found")


async def test_without_the_demo_nobody_gets_a_token(rest: Rest) -> None:
    assert (await rest.http.get("/app.json")).json() == {"phone": False, "demo": []}
    answer = await rest.http.post("/demo/tokens", content=json.dumps({"user_id": "alice"}))
    assert problem(answer) == (404, "not_found")
