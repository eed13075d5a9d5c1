# SPDX-License-Identifier: Apache-2.0
"""Asking a running server something with the root key."""

import json
import urllib.error
import urllib.request


def ask(method: str, url: str, root_key: str, seconds_max: float) -> bytes:
    """The body of a good answer; raises what `urllib.request` does for all others."""
    request = urllib.request.Request(
        url, method=method, headers={"Authorization": f"Bearer {root_key}"}
    )
    # No proxy: the root key goes to the server and nowhere else.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds_max) as response:
        body: bytes = response.read()
    return body


def detail(error: urllib.error.HTTPError) -> str:
    """What the server says about its refusal."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
