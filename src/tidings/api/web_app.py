# SPDX-License-Identifier: Apache-2.0
"""Serves the web app, the console and the modules of the JavaScript client from `clients/js`.

All files are below `/assets/{version}/`. The version is a digest of all files, so browsers may
cache them for ever. Any other version, such as `latest`, returns the same files, but browsers must
check them each time. A page on another site can therefore use `latest`, and a page from a server of
another version still works during an upgrade. Our own pages name the files without the version,
which the server inserts. A module is joined with its imports. Files are prepared and compressed in
a thread when they are first requested, and then cached.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import brotli
from starlette.requests import Request
from starlette.responses import Response

from tidings import __version__
from tidings.api.callers import Guard
from tidings.api.modules import bundle
from tidings.model.refusals import NotFound

_PACKAGED: Final = Path(__file__).parent / "web" / "client"
_CHECKOUT: Final = Path(__file__).parents[3] / "clients" / "js"
FOLDERS: Final = ("src", "elements", "app", "console")
"""Folders of the JavaScript client that are served."""
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_PAGES: Final = {
    "/": "app/index.html",
    "/console": "console/index.html",
    "/manifest.webmanifest": "app/manifest.webmanifest",
    "/sw.js": "app/sw.js",
}
_REFUSED: Final = re.compile(r"q=0(\.0*)?")
ASSETS: Final = "/assets/"
ASSET_PATH: Final = "/assets/{version}/{folder}/{name}"
Encoding = Literal["br", "gzip", "identity"]
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types tidings",
    )
)
_CHAT_POLICY: Final = CONTENT_SECURITY_POLICY.replace(
    "img-src 'self'", "img-src 'self' blob:; media-src 'self' blob:"
)
"""Policy of the web app, which also shows and plays files before they are uploaded."""


class WebFile:
    """One file, in plain and compressed form; each form is created at its first use."""

    def __init__(self, path: str, make: Callable[[], bytes], making: asyncio.Lock) -> None:
        """Set up the file; all files share the lock `making`, so that only one thread works at a
        time."""
        self.media_type = _MEDIA_TYPES[Path(path).suffix]
        self._make = make
        self._making = making
        self._forms: dict[Encoding, bytes] = {}

    async def form(self, encoding: Encoding) -> bytes:
        """Return the content in an encoding."""
        if encoding not in self._forms:
            async with self._making:
                if encoding not in self._forms:
                    self._forms[encoding] = await asyncio.to_thread(self._prepare, encoding)
        return self._forms[encoding]

    def _prepare(self, encoding: Encoding) -> bytes:
        plain = self._forms.get("identity") or self._make()
        match encoding:
            case "br":
                compressed: bytes = brotli.compress(plain)
                return compressed
            case "gzip":
                return gzip.compress(plain, mtime=0)
            case "identity":
                return plain


class WebApp:
    """The files of the web app by path, and their common version."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self.version = _digest(sources)
        self._modules = {
            path: content.decode() for path, content in sources.items() if _is_module(path)
        }
        making = asyncio.Lock()
        self.files = {
            path: WebFile(path, self._maker(path, content), making)
            for path, content in sources.items()
        }
        self.pages = {path: self.files[source] for path, source in _PAGES.items()}

    def _maker(self, path: str, content: bytes) -> Callable[[], bytes]:
        versioned = f"{ASSETS}{self.version}/".encode()

        def make() -> bytes:
            made = bundle(self._modules, path).encode() if _is_module(path) else content
            return made.replace(ASSETS.encode(), versioned) if path in _PAGES.values() else made

        return make


def load_web_app() -> WebApp:
    """Return the web app of this installation."""
    root = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    return WebApp(
        {
            f"{folder}/{file.name}": file.read_bytes()
            for folder in FOLDERS
            for file in sorted((root / folder).glob("*"))
            if file.suffix in _MEDIA_TYPES
        }
    )


def _is_module(path: str) -> bool:
    return path.endswith(".js")


def _digest(sources: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(sources):
        digest.update(hashlib.sha256(path.encode()).digest())
        digest.update(hashlib.sha256(sources[path]).digest())
    return digest.hexdigest()[:16]


class WebAppResponder:
    """Answers the requests for one page of the web app or, without a page, for all of its
    files."""

    def __init__(self, app: WebApp, guard: Guard, page: str | None = None) -> None:
        """Set up the responder; without `page`, the path of a request names the file."""
        self._app = app
        self._guard = guard
        self._page = page

    async def __call__(self, request: Request) -> Response:
        """Return the file, or 304 if the client already has it. A client over its rate limit is
        refused."""
        await self._guard.admit(request.scope, None)
        file, headers = self._find(request)
        if _knows(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        encoding = chosen_encoding(request.headers.get("accept-encoding", ""))
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        return Response(await file.form(encoding), 200, headers, file.media_type)

    def _find(self, request: Request) -> tuple[WebFile, dict[str, str]]:
        """Return the file for a request, and the headers that do not depend on its encoding."""
        headers = {
            "Cache-Control": ASK_AGAIN,
            "ETag": f'W/"{self._app.version}"',
            "Vary": "Accept-Encoding",
        }
        if self._page is not None:
            is_chat = self._page == "/"
            headers["Content-Security-Policy"] = (
                _CHAT_POLICY if is_chat else CONTENT_SECURITY_POLICY
            )
            return self._app.pages[self._page], headers
        asked = request.path_params
        file = self._app.files.get(f"{asked['folder']}/{asked['name']}")
        if file is None:
            raise NotFound
        # Pages of other origins import the modules too, and browsers then require CORS headers.
        headers["Access-Control-Allow-Origin"] = "*"
        if asked["version"] == self._app.version:
            headers["Cache-Control"] = FOR_EVER
        return file, headers


def _knows(request: Request, tag: str) -> bool:
    return tag in (item.strip() for item in request.headers.get("if-none-match", "").split(","))


def chosen_encoding(accepted: str) -> Encoding:
    """Return the best encoding for a client that sends this `Accept-Encoding`."""
    names = set()
    for item in accepted.lower().split(","):
        name, _, quality = item.replace(" ", "").partition(";")
        if not _REFUSED.fullmatch(quality):
            names.add(name)
    if "br" in names:
        return "br"
    return "gzip" if "gzip" in names else "identity"
