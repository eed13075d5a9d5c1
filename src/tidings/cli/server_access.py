# SPDX-License-Identifier: Apache-2.0
"""Gives commands access to a running server: its URL, the root key, and requests to it."""

import argparse
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from tidings.certificates import trust_only
from tidings.config import Config
from tidings.data_folder import SERVER_FILE, is_in_use
from tidings.keyrings import read_root_key
from tidings.model.setup_error import SetupError

ANSWER_SECONDS_MAX: Final = 30.0

_certificates: dict[str, str] = {}
"""Certificate of each server that a data folder names, by host and port."""


def running_server(folder: Path) -> str | None:
    """Return the URL of the server that has this folder open; None if there is none.

    A server writes its URL to a file in the folder. The file of a killed server is ignored, because
    another program may now listen at this URL and would get the root key.
    """
    if not is_in_use(folder):
        return None
    try:
        content = json.loads((folder / SERVER_FILE).read_text())
    except (OSError, ValueError):
        return None
    url = content.get("url") if isinstance(content, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    if "certificate" in content:
        _certificates[urlsplit(url).netloc] = str(content["certificate"])
    return url


def certificate_of(url: str | None) -> str | None:
    """Return the certificate of a server that a data folder names; None for any other."""
    return None if url is None else _certificates.get(urlsplit(url).netloc)


def trust_of(url: str) -> ssl.SSLContext | None:
    """Return the TLS settings for requests to a server; None if it speaks plain HTTP.

    A server that a data folder names has the certificate that is there, whatever its name is. Any
    other must have one of an authority that this machine trusts, or that SSL_CERT_FILE names.
    """
    if not url.startswith("https:"):
        return None
    certificate = certificate_of(url)
    return ssl.create_default_context() if certificate is None else trust_only(certificate)


def need_client() -> None:
    """Raise SetupError if the client, a separate package, is not installed."""
    try:
        import tidings_client  # noqa: F401
    except ImportError:
        raise SetupError(
            "this needs the Python client: pip install tidings-client\n"
            "(in a clone of the repository: .venv/bin/pip install -e clients/python)"
        ) from None


def server_url(config: Config, given: str | None, flag: str) -> str:
    """Return the given URL, or else the URL of the server that has the data folder open.

    Raises:
        SetupError: There is no such server. The text suggests the option `flag`.
    """
    url = given or running_server(config.data)
    if url is None:
        raise SetupError(
            f"no server has the folder {config.data} open: start one with `tidings serve`, or "
            f"name one with --data or {flag}"
        )
    return url


def known_root_key(config: Config) -> str:
    """Return the root key from the settings, or else from the data folder.

    Raises:
        SetupError: There is no root key.
    """
    key = config.keys.root_key or read_root_key(config.data)
    if key is None:
        raise SetupError(f"there is no root key in {config.data}, and TIDINGS_ROOT_KEY is not set")
    return key


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a refusal."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


def ask(method: str, url: str, root_key: str, seconds_max: float, body: object = None) -> bytes:
    """Send a request with the root key and return the body of the answer.

    `body` is sent as JSON. Raises the errors of `urllib.request` if the request fails or is
    refused.
    """
    headers = {"Authorization": f"Bearer {root_key}"}
    data = None
    if body is not None:
        headers["Content-Type"], data = "application/json", json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    # No proxy is used and no redirect is followed, because only the server may get the root key.
    handlers: list[type | urllib.request.BaseHandler] = [NoRedirects]
    if (trust := trust_of(url)) is not None:
        handlers.append(urllib.request.HTTPSHandler(context=trust))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
    with opener.open(request, timeout=seconds_max) as response:
        content: bytes = response.read()
    return content


def detail(error: urllib.error.HTTPError) -> str:
    """Return the server's reason for a refusal."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"


Row = dict[str, Any]
"""An item of a list, as the server answers it."""


class _Rows(msgspec.Struct):
    data: list[Row]
    next_cursor: str | None


class NotNow(SetupError):
    """The server does not answer, or cannot do now what it is asked."""


def request(method: str, url: str, root_key: str, body: object = None) -> bytes:
    """Send a request with the root key and return the body of the answer.

    Raises:
        NotNow: The server does not answer, or fails, or is asked too often.
        SetupError: The server declines.
    """
    try:
        return ask(method, url, root_key, ANSWER_SECONDS_MAX, body)
    except urllib.error.HTTPError as error:
        kind = NotNow if error.code == 429 or error.code >= 500 else SetupError
        raise kind(f"the server declined: {detail(error)}") from None
    except (http.client.HTTPException, OSError) as error:
        raise NotNow(f"the server does not answer: {error}") from None


def rows(
    url: str, root_key: str, query: dict[str, str] | None = None, *, limit: int | None = 100
) -> Iterator[Row]:
    """Yield the rows of all pages of a list."""
    asked = ({} if limit is None else {"limit": str(limit)}) | (query or {})
    while True:
        answer = request("GET", f"{url}?{urlencode(asked)}", root_key)
        page = msgspec.json.decode(answer, type=_Rows)
        yield from page.data
        if page.next_cursor is None:
            return
        asked["cursor"] = page.next_cursor


def of_tenant(where: str, tenant: str, *parts: str) -> str:
    """Return the URL of a tenant, or of something below it; `where` is the URL of all tenants."""
    return "/".join((where, quote(tenant, safe=""), *parts))


def print_row(*columns: str | None) -> None:
    """Print the columns that have a value, on one line."""
    print("  ".join(plain(column) for column in columns if column is not None))


def plain(text: str) -> str:
    """Replace control characters in a text, because a terminal could execute those of a user."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def add_server_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names another server."""
    parser.add_argument(
        "--server", metavar="URL", help="the server (the one that runs on the data folder)"
    )
