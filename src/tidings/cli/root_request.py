# SPDX-License-Identifier: Apache-2.0
"""Requests to a running server with the root key."""

import json
import urllib.error
import urllib.request


def ask(method: str, url: str, root_key: str, seconds_max: float) -> bytes:
    """Return the body of a successful answer; raise as `urllib.request` does for all others."""
    request = urllib.request.Request(
        url, method=method, headers={"Authorization": f"Bearer {root_key}"}
    )
    # No proxy: the root key must reach the server only.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds_max) as response:
        body: bytes = response.read()
    return body


def detail(error: urllib.error.HTTPError) -> str:
    """Return the server's reason for a refusal."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
