# SPDX-License-Identifier: Apache-2.0
"""Google's token endpoint and FCM, which check what a server sends, as the real ones do."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from time import time
from typing import Any

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

PROJECT = "example-project"
EMAIL = "sender@example-project.iam.gserviceaccount.com"
KEY_ID = "f00dbabe"
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


@cache
def account_key() -> RSAPrivateKey:
    return generate_private_key(65_537, 2_048)


def service_account() -> dict[str, Any]:
    """Return the file that Google gives out for a service account."""
    pem = account_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": KEY_ID,
        "private_key": pem.decode(),
        "client_email": EMAIL,
        "client_id": "1",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": "https://oauth2.googleapis.com/token",
        "universe_domain": "googleapis.com",
    }


def fcm_error(status: int, code: str | None, **headers: str) -> web.Response:
    """Return an answer of FCM with this error code."""
    details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}]
    error = {"code": status, "message": "it failed", "details": details if code else []}
    return web.json_response({"error": error}, status=status, headers=headers)


class FcmServer:
    """Gives out tokens, and takes messages with them."""

    def __init__(self) -> None:
        self.url = ""
        self.token_url = ""
        self.tokens = 0
        """Number of tokens that were asked for."""
        self.token_seconds = 3_599
        self.token_status = 200
        self.error: web.Response | None = None
        self.is_frugal = False
        """Whether answers are compressed if the client takes that, and come in two pieces."""
        self.messages: list[dict[str, Any]] = []
        self.now: Callable[[], float] = time

    async def take_token(self, request: web.Request) -> web.StreamResponse:
        """Handle a request for a token."""
        self.tokens += 1
        form = await request.post()
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assertion = str(form["assertion"])
        claims = jwt.decode(
            assertion,
            account_key().public_key(),
            algorithms=["RS256"],
            audience=self.token_url,
            options={"verify_exp": False, "verify_iat": False},
        )
        assert jwt.get_unverified_header(assertion)["kid"] == KEY_ID
        assert claims["iss"] == EMAIL
        assert claims["scope"] == SCOPE
        assert 0 < claims["exp"] - claims["iat"] <= 3_600
        assert abs(claims["iat"] - self.now()) <= 300
        if self.token_status != 200:
            return web.json_response({"error": "invalid_grant"}, status=self.token_status)
        answer = {
            "access_token": f"token-{self.tokens}",
            "expires_in": self.token_seconds,
            "token_type": "Bearer",
        }
        if self.is_frugal:
            return await _in_two_pieces(request, json.dumps(answer).encode())
        return web.json_response(answer)

    async def take_message(self, request: web.Request) -> web.StreamResponse:
        """Handle a message."""
        if request.headers["Authorization"] != f"Bearer token-{self.tokens}":
            return fcm_error(401, None)
        assert request.match_info["project"] == PROJECT
        message = json.loads(await request.read())["message"]
        assert message.keys() <= {"token", "data", "notification", "android", "apns"}
        for name, value in message["data"].items():
            assert isinstance(value, str)
            assert name not in ("from", "message_type")
            assert not name.startswith(("google", "gcm"))
        assert message["android"]["ttl"].endswith("s")
        self.messages.append(message)
        if self.error is not None:
            own = self.error
            return web.Response(status=own.status, body=own.body, headers=own.headers)
        return web.json_response({"name": f"projects/{PROJECT}/messages/{len(self.messages)}"})


async def _in_two_pieces(request: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_compression()
    await response.prepare(request)
    await response.write(body[:20])
    for _ in range(100):
        await asyncio.sleep(0)  # the client reads the first piece
    await response.write(body[20:])
    await response.write_eof()
    return response


@asynccontextmanager
async def open_fcm() -> AsyncIterator[FcmServer]:
    """Run the server, without TLS."""
    fcm = FcmServer()
    app = web.Application()
    app.router.add_post("/token", fcm.take_token)
    app.router.add_post("/v1/projects/{project}/messages:send", fcm.take_message)
    async with TestServer(app) as server:
        fcm.url = str(server.make_url("")).rstrip("/")
        fcm.token_url = str(server.make_url("/token"))
        yield fcm
