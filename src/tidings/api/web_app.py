# SPDX-License-Identifier: Apache-2.0
"""Serves the web app and the modules of the JavaScript client, from the folders of `clients/js`.

All files are below `/assets/{version}/`, where the version is a digest of all of them, so browsers
may keep them for ever. Pages, which browsers ask for again each time, name the files without the
version, and get it inserted. A module comes joined with its imports. Files are prepared and
compressed when they are first asked for, in a thread, and kept.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tidings import __version__
from tidings.api.callers import Guard
from tidings.api.modules import bundle
from tidings.model.refusals import NotFound

_PACKAGED: Final = Path(__file__).parent / "web" / "client"
_CHECKOUT: Final = Path(__file__).parents[3] / "clients" / "js"
FOLDERS: Final = ("src", "elements", "app")
"""Folders of the JavaScript client that are served."""
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_PAGES: Final = {
    "/": "app/index.html",
    "/manifest.webmanifest": "app/manifest.webmanifest",
    "/sw.js": "app/sw.js",
}
ASSETS: Final = "/assets/"
ASSET_PATH: Final = "/assets/{version}/{folder}/{name}"
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


class WebFile:
    """One file, plain and compressed; each form is made at its first use."""

    def __init__(self, path: str, make: Callable[[], bytes], making: asyncio.Lock) -> None:
        """`making` is shared by all files, so that only one thread works at a time."""
        self.media_type = _MEDIA_TYPES[Path(path).suffix]
        self._make = make
        self._making = making
        self._forms: dict[str, bytes] = {}

    async def form(self, encoding: str) -> bytes:
        """Return the content in an encoding: `identity` or `gzip`."""
        if encoding not in self._forms:
            async with self._making:
                if encoding not in self._forms:
                    await asyncio.to_thread(self._prepare, encoding)
        return self._forms[encoding]

    def _prepare(self, encoding: str) -> None:
        plain = self._forms.get("identity")
        if plain is None:
            plain = self._forms["identity"] = self._make()
        if encoding == "gzip":
            self._forms[encoding] = gzip.compress(plain, mtime=0)


class WebApp:
    """The files of the web app by their path, and the version of them all."""

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
        self.pages = {
            path: self.files[source] for path, source in _PAGES.items() if source in self.files
        }

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
    """Answers the requests for one page of the web app, or for all of its files."""

    def __init__(self, app: WebApp, guard: Guard, page: str | None = None) -> None:
        """Without `page`, the path of a request names the file."""
        self._app = app
        self._guard = guard
        self._page = page

    async def __call__(self, request: Request) -> Response:
        """Return the file, or 304 if the client has it, unless it is over its rate limit."""
        await self._guard.admit(request.scope, None)
        file, caching = self._find(request)
        tag = f'W/"{self._app.version}"'
        headers = {
            "Cache-Control": caching,
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "ETag": tag,
            "Vary": "Accept-Encoding",
        }
        if _knows(request, tag):
            return Response(status_code=304, headers=headers)
        encoding = chosen_encoding(request.headers.get("accept-encoding", ""))
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        return Response(await file.form(encoding), 200, headers, file.media_type)

    def _find(self, request: Request) -> tuple[WebFile, str]:
        if self._page is not None:
            return self._app.pages[self._page], ASK_AGAIN
        asked = request.path_params
        file = self._app.files.get(f"{asked['folder']}/{asked['name']}")
        if file is None:
            raise NotFound
        # While a deployment is upgraded, a page of one version may ask a server of another.
        return file, FOR_EVER if asked["version"] == self._app.version else ASK_AGAIN


def _knows(request: Request, tag: str) -> bool:
    return tag in (item.strip() for item in request.headers.get("if-none-match", "").split(","))


def chosen_encoding(accepted: str) -> str:
    """Return the encoding of an answer to a client that accepts these encodings."""
    for item in accepted.lower().split(","):
        name, _, parameter = item.partition(";")
        if name.strip() == "gzip" and parameter.replace(" ", "") not in (
            "q=0",
            "q=0.0",
            "q=0.00",
            "q=0.000",
        ):
            return "gzip"
    return "identity"
