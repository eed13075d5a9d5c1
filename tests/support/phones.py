# SPDX-License-Identifier: Apache-2.0
"""A webhook that receives text messages, checks their signatures, and records them by number."""

import hashlib
import hmac
import itertools
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.engine import Settings
from tests.support.waiting import until

SECRET: Final = "a-secret-that-the-phones-share-with-it"

PHONE_LOGIN: Final = {"login": {"phone": True, "register": True}}
"""The settings of a tenant where anybody can log in by phone."""

_numbers = itertools.count(1)


def new_number() -> str:
    """Return an unused number with a prefix of its own."""
    return f"+4179{next(_numbers):03d}0001"


class Phones:
    """The phones of all users."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.is_down = False
        self.rejects = False
        self.texts: dict[str, list[str]] = defaultdict(list)

    @property
    def settings(self) -> Settings:
        """Settings with which a server sends its texts to this webhook."""
        return {"sms": "webhook", "sms_url": self.url, "sms_secret": SECRET}

    def code(self, number: str) -> str:
        """Return the code in the last text to a number."""
        found = re.search(r"\b\d{6}\b", self.texts[number][-1])
        assert found is not None, self.texts[number][-1]
        return found[0]

    async def next_code(self, number: str, seen: int = 0) -> str:
        """Wait until a number has got more than `seen` texts; return the code in the last one."""
        await until(lambda: len(self.texts[number]) > seen)
        return self.code(number)

    async def take(self, request: web.Request) -> web.Response:
        """Handle a request to the webhook."""
        self.asked += 1
        body = await request.read()
        if self.is_down:
            return web.Response(status=500)
        if self.rejects:
            return web.Response(status=422)
        match = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", request.headers["Tidings-Signature"])
        assert match is not None
        signed = f"{match[1]}.".encode() + body
        if hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest() != match[2]:
            return web.Response(status=401)
        text = json.loads(body)
        self.texts[text["phone_number"]].append(text["text"])
        return web.Response(status=204)


@asynccontextmanager
async def some_phones() -> AsyncIterator[Phones]:
    """Run the webhook, and yield its phones."""
    phones = Phones()
    app = web.Application()
    app.router.add_post("/texts", phones.take)
    async with TestServer(app) as server:
        phones.url = str(server.make_url("/texts"))
        yield phones
