# SPDX-License-Identifier: Apache-2.0
"""Loads the code of a provider when the first notice is sent: most servers send none."""

import asyncio
import ssl
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidings.model.addresses import Networks
from tidings.model.outgoing_refusals import ProviderMissing
from tidings.outgoing.push.answers import ServiceAnswer, ServicePosts

if TYPE_CHECKING:
    from tidings.outgoing.push.guarded_posts import GuardedPosts


async def load(module: str) -> None:
    """Import a module in a thread, because that takes too long for the event loop."""
    await asyncio.to_thread(import_module, module)


def trusted_certificates() -> ssl.SSLContext:
    """Return the settings for TLS, with the certificates that this machine trusts.

    Some hundred certificates are read, which takes too long for the event loop.
    """
    return ssl.create_default_context()


def require(*packages: str) -> None:
    """Check that packages are installed, without importing them.

    Raises:
        ProviderMissing: One of the packages is missing.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ProviderMissing(
                f"the package {package} is not installed; the operator of this server installs it"
                " with pip install 'tidings[push]'"
            )


class LazyPosts:
    """Posts requests to push services, and loads the HTTP client with the first of them."""

    def __init__(self, allowed: Networks) -> None:
        self._allowed = allowed
        self._posts: GuardedPosts | None = None

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ServiceAnswer:
        posts = self._posts or await self._open()
        return await posts.post(url, headers, body)

    async def close(self) -> None:
        """Close the connections."""
        if self._posts is not None:
            await self._posts.close()

    async def _open(self) -> "GuardedPosts":
        await load("tidings.outgoing.push.guarded_posts")
        from tidings.outgoing.push.guarded_posts import GuardedPosts

        tls = await asyncio.to_thread(trusted_certificates)
        if self._posts is None:  # no other request has opened it meanwhile
            self._posts = GuardedPosts(self._allowed, tls=tls)
        return self._posts


_conforms: type[ServicePosts] = LazyPosts
