# SPDX-License-Identifier: Apache-2.0
"""Where Kafka is and how to log in there; starting a client so that nothing is left behind."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

GIVE_UP_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sasl:
    """A name and a password, and how they are shown to Kafka."""

    mechanism: str
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaServers:
    """The servers a client begins with, and what it needs to be let in."""

    bootstrap: str
    """host:port, several with commas."""
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    def options(self) -> dict[str, Any]:
        """What every client of the library is given."""
        encrypted = "SSL" if self.tls is not None else "PLAINTEXT"
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": f"SASL_{encrypted}" if self.sasl else encrypted,
            "ssl_context": self.tls,
        }
        if self.sasl is not None:
            options |= {
                "sasl_mechanism": self.sasl.mechanism,
                "sasl_plain_username": self.sasl.username,
                "sasl_plain_password": self.sasl.password,
            }
        return options


async def start_client(client: Any) -> None:  # noqa: ANN401 - the library has no types
    """Start a consumer, a producer or an admin client; whoever gives up waits until it has.

    Cut off halfway, the library loses the connection it began with: open, and in nobody's hands.
    """
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=GIVE_UP_SECONDS_MAX)
        if starting.done() and not starting.cancelled():
            starting.exception()  # looked at, so that nobody is told it was not
        else:
            starting.cancel()
        raise
