# SPDX-License-Identifier: Apache-2.0
"""Loads files of libraries once for each process, because the libraries load them for each client.

httpx reads the authorities that it trusts (20 ms), and the SDK of AWS the descriptions of its
services (80 ms). A client that names its own authorities still gets those.
"""

import ssl
from functools import cache

import botocore.loaders
import botocore.session
import httpx._config as httpx_config
from httpx._transports import default as httpx_transports
from httpx._types import CertTypes

_read_authorities = httpx_config.create_ssl_context


def load_libraries_once() -> None:
    """Make clients that are made in this process from now on share what their libraries load."""
    vars(httpx_transports).update(create_ssl_context=_authorities)
    vars(botocore.session).update(create_loader=cache(botocore.loaders.create_loader))


def _authorities(
    verify: ssl.SSLContext | str | bool = True,
    cert: CertTypes | None = None,
    trust_env: bool = True,
) -> ssl.SSLContext:
    if verify is True and cert is None:
        return _usual_authorities(trust_env=trust_env)
    return _read_authorities(verify, cert, trust_env)


_usual_authorities = cache(_read_authorities)
