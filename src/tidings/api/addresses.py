# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a request."""

from starlette.types import Scope

from tidings.model.addresses import Networks, counted_address, is_trusted


def client_address(scope: Scope, trusted: Networks) -> str | None:
    """As whom the client is counted where addresses are; None if it is not to be counted.

    Behind one of the `trusted` proxies it is who they say it is.
    """
    client = scope["client"]
    return counted_address(client[0] if client else None, forwarded_for(scope), trusted)


def forwarded_for(scope: Scope) -> list[str]:
    """What each `X-Forwarded-For` header of a request says, in their order."""
    return [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
    ]


def came_encrypted(scope: Scope, trusted: Networks) -> bool:
    """Whether a trusted proxy says that the client asked it over HTTPS."""
    client = scope["client"]
    if not trusted or client is None or not is_trusted(client[0], trusted):
        return False
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return len(said) == 1 and said[0].strip().lower() == b"https"
