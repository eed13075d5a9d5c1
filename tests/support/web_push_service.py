# SPDX-License-Identifier: Apache-2.0
"""A browser and its push service, which check what a server sends, as those of vendors do."""

import json
import re
import ssl
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tidings.outgoing.push.elliptic_keys import to_base64url
from tidings.outgoing.push.encryption import SubscriptionKeys


class Browser:
    """A browser that subscribes, and decrypts what arrives (RFC 8188 and 8291, receiver's side)."""

    def __init__(self, key: EllipticCurvePrivateKey, auth: bytes) -> None:
        self._key = key
        self._auth = auth
        self._public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @classmethod
    def new(cls) -> "Browser":
        return cls(generate_private_key(SECP256R1()), b"sixteen bytes ok")

    @property
    def keys(self) -> SubscriptionKeys:
        return SubscriptionKeys(self._public, self._auth)

    def subscription(self, endpoint: str) -> dict[str, Any]:
        """Return what `PushSubscription.toJSON()` of this browser returns."""
        keys = {"p256dh": to_base64url(self._public), "auth": to_base64url(self._auth)}
        return {"endpoint": endpoint, "expirationTime": None, "keys": keys}

    def decrypt(self, body: bytes) -> tuple[bytes, int]:
        """Return the text and the number of padding bytes."""
        assert len(body) <= 4_096
        salt, size, key_size = body[:16], int.from_bytes(body[16:20]), body[20]
        sender, record = body[21 : 21 + key_size], body[21 + key_size :]
        assert len(record) <= size, "there is more than one record"
        point = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), sender)
        info = b"WebPush: info\0" + self._public + sender
        secret = _derive(self._key.exchange(ECDH(), point), self._auth, info, 32)
        key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, record, None)
        text = padded.rstrip(b"\0")
        assert text[-1:] == b"\x02", "it is not the last record"
        return text[:-1], len(padded) - len(text)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


class WebPushService:
    """A push service of a browser vendor, over TLS. It checks requests as RFC 8030 and 8292 say."""

    def __init__(self) -> None:
        self.url = ""
        self.answer = web.Response(status=201, headers={"Location": "/message/1"})
        self.browsers: dict[str, Browser] = {}
        self.received: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        """(name of the browser, decrypted message, headers) of each request."""
        self.paddings: list[int] = []
        self.now: Callable[[], float] = time.time

    def subscribe(self, name: str) -> dict[str, Any]:
        """Return the subscription of a new browser."""
        browser = self.browsers[name] = Browser.new()
        return browser.subscription(f"{self.url}/push/{name}")

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Handle a push message; a failed check is an error 500."""
        name = request.match_info["name"]
        headers = {key.lower(): value for key, value in request.headers.items()}
        assert headers["content-encoding"] == "aes128gcm"
        assert 0 <= int(headers["ttl"]) <= 4 * 7 * 86_400
        assert headers["urgency"] in ("very-low", "low", "normal", "high")
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,32}", headers["topic"])
        claims = self.check_vapid(headers["authorization"])
        headers["sub"] = claims.get("sub", "")
        text, padding = self.browsers[name].decrypt(await request.read())
        self.received.append((name, json.loads(text), headers))
        self.paddings.append(padding)
        own = self.answer
        return web.Response(status=own.status, body=own.body, headers=own.headers)

    def check_vapid(self, authorization: str) -> dict[str, Any]:
        """Return the claims of the token, whose signature is that of the key beside it."""
        found = re.fullmatch(r"vapid t=([\w.-]+), k=([\w-]+)", authorization)
        assert found, authorization
        point = urlsafe_b64decode(found[2] + "=")
        key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        claims: dict[str, Any] = jwt.decode(
            found[1],
            key,
            algorithms=["ES256"],
            audience=self.url,
            options={"verify_exp": False},
        )
        assert jwt.get_unverified_header(found[1]) == {"typ": "JWT", "alg": "ES256"}
        assert 0 < claims["exp"] - self.now() <= 86_400
        return claims


@asynccontextmanager
async def open_web_push_service(tls: ssl.SSLContext) -> AsyncIterator[WebPushService]:
    """Run the service."""
    service = WebPushService()
    app = web.Application()
    app.router.add_post("/push/{name}", service.take)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=tls)
    service.url = str(server.make_url("")).rstrip("/")
    try:
        yield service
    finally:
        await server.close()
