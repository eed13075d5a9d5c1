# SPDX-License-Identifier: Apache-2.0
"""Health, and the pages: served as what they are, and loading nothing from elsewhere."""

import logging
import re
from typing import get_args

import pytest

from tests.integration.rest_world import Rest, problem
from tidings.api.health import load_pages
from tidings.ports.processes import Trouble

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = load_pages()


async def test_health_needs_no_key(rest: Rest) -> None:
    assert (await rest.nobody.call("GET", "/healthz")).json() == {"status": "alive"}
    assert (await rest.nobody.call("GET", "/readyz")).json() == {"status": "ready"}


@pytest.mark.attack("S24")
@pytest.mark.parametrize("trouble", get_args(Trouble))
async def test_not_ready_says_why_and_no_more(rest: Rest, trouble: Trouble) -> None:
    rest.condition.trouble = trouble
    answer = await rest.nobody.call("GET", "/readyz")
    assert problem(answer) == (503, "unavailable")
    assert answer.json()["detail"] == trouble
    assert int(answer.headers["retry-after"]) >= 1
    assert (await rest.nobody.call("GET", "/healthz")).status_code == 200
    rest.condition.trouble = None


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_served_as_what_it_is(rest: Rest, path: str) -> None:
    media_type, content = PAGES[path]
    answer = await rest.nobody.call("GET", path)
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    head = await rest.nobody.call("HEAD", path)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(content)))


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_refers_only_to_what_is_served_here(rest: Rest, path: str) -> None:
    text = PAGES[path][1].decode()
    own = re.findall(r'(?:href|src)="([^"#]+)"|from "\.(/[^"]+)"', text)
    for absolute, beside in own:
        target = absolute or f"/web{beside}"
        assert (await rest.nobody.call("GET", target)).status_code == 200, target
    elsewhere = re.findall(r"https?://[^\s\"'`]+", text)
    assert set(elsewhere) <= {"http://127.0.0.1:8080", "http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_keeps_to_its_own_policy(path: str) -> None:
    text = PAGES[path][1].decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text)


async def test_an_error_of_ours_is_logged_and_not_shown(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object, __: str) -> None:
        raise ZeroDivisionError("the secret inside")

    monkeypatch.setattr(type(rest.core.authenticate), "__call__", fail)
    with caplog.at_level(logging.ERROR, "tidings.api"):
        answer = await rest.nobody.call("GET", "/v1/me", headers={"Authorization": "Bearer x"})
    assert problem(answer) == (500, "server.failed")
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text
