# SPDX-License-Identifier: Apache-2.0
"""Sends e-mails by SMTP. The connection is encrypted, except to a server on this machine.

The operator chooses the server, so its address may be private.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as MAIL_POLICY
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tidings.model.emails import Email, EmailOutcome
from tidings.model.limits import SECOND_MS
from tidings.ports.email import MailConnection, Mailer, MailUnavailable
from tidings.ports.world import Clock

if TYPE_CHECKING:
    from aiosmtplib import SMTP

TIMEOUT_SECONDS: Final = 30.0
"""How long the mail server may take for one answer."""
CLOSING_SECONDS: Final = 2.0
PERMANENT: Final = 500
BUSY: Final = 421
"""The server closes the connection, so it takes no other e-mail either."""


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """The mail server of the operator."""

    host: str
    port: int
    sender: str
    """Address that e-mails come from."""
    begins_with_tls: bool
    must_start_tls: bool
    """Whether nothing may be sent before STARTTLS; if not, it is used if the server offers it."""
    username: str | None = None
    password: str | None = None
    ca: Path | None = None

    def __repr__(self) -> str:
        return f"MailServer({self.host}:{self.port})"


class SmtpMailer:
    """Connects to a mail server. The library is loaded with the first connection."""

    def __init__(self, server: MailServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MailConnection]:
        client = await self._open()
        try:
            yield _Connection(client, self._server.sender, self._clock)
        finally:
            with suppress(Exception):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await client.quit()
            client.close()

    async def _open(self) -> "SMTP":
        client = await asyncio.to_thread(self._make)
        try:
            await client.connect()
        except Exception as error:
            # What the server answers may quote addresses, so the log gets the kind of error only.
            raise MailUnavailable(_reason(error)) from error
        return client

    def _make(self) -> "SMTP":
        """Make a client. Loading the library and the certificates takes too long for the loop."""
        from aiosmtplib import SMTP

        server = self._server
        self._tls = self._tls or ssl.create_default_context(cafile=server.ca)
        is_plain = not server.begins_with_tls and not server.must_start_tls
        return SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=server.sender.rpartition("@")[2],  # without it, DNS would be asked
            username=server.username,
            password=server.password,
            use_tls=server.begins_with_tls,
            start_tls=None if is_plain else not server.begins_with_tls,
            tls_context=self._tls,
            timeout=TIMEOUT_SECONDS,
        )


class _Connection:
    """Sends e-mails over one connection, and learns from each answer whether it was sent."""

    def __init__(self, client: "SMTP", sender: str, clock: Clock) -> None:
        self._client = client
        self._sender = sender
        self._clock = clock

    async def send(self, email: Email) -> EmailOutcome:
        try:
            content = to_bytes(email, self._sender, self._clock.now())
        except (ValueError, MessageError):
            return "refused"  # it cannot be written as a message, so trying again does not help
        refusal = await self._envelope(email.recipient)
        if refusal is not None:
            return await self._refused(refusal)
        from aiosmtplib import SMTPException, SMTPResponseException

        try:
            await self._client.data(content)
        except SMTPResponseException as error:
            return await self._refused(error.code)
        except (SMTPException, OSError, TimeoutError):
            return "unknown"
        return "sent"

    async def _envelope(self, recipient: str) -> int | None:
        """Name sender and recipient; return the status if the server refuses one of them."""
        from aiosmtplib import SMTPException, SMTPResponseException

        try:
            await self._client.mail(self._sender)
            await self._client.rcpt(recipient)
        except SMTPResponseException as error:
            return error.code
        except (SMTPException, OSError, TimeoutError) as error:
            raise MailUnavailable(_reason(error)) from error
        return None

    async def _refused(self, code: int) -> EmailOutcome:
        if code == BUSY:
            raise MailUnavailable(f"status {code}")
        with suppress(Exception):  # the next e-mail notices if the connection is broken
            await self._client.rset()
        return "refused" if code >= PERMANENT else "later"


def to_bytes(email: Email, sender: str, now: int) -> bytes:
    """Build the message: plain text, the same as HTML, and headers to unsubscribe (RFC 8058)."""
    message = EmailMessage(policy=MAIL_POLICY)
    domain = sender.rpartition("@")[2]
    message["From"] = Address(display_name=email.sender_name, addr_spec=sender)
    message["To"] = Address(addr_spec=email.recipient)
    message["Subject"] = email.subject
    message["Date"] = format_datetime(datetime.fromtimestamp(now / SECOND_MS, UTC))
    message["Message-ID"] = f"<{email.message_id}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Both parts are ASCII on the wire: not every mail server takes eight bits.
    message.set_content(email.text, cte="quoted-printable")
    message.add_alternative(email.html, subtype="html", cte="quoted-printable")
    return _unsubscribing(email.unsubscribe_url) + message.as_bytes()


def _unsubscribing(url: str | None) -> bytes:
    """Return the headers to unsubscribe. They are not folded: `EmailMessage` would encode a long
    address in a way that only readers of text understand."""
    if url is None:
        return b""
    assert url.isascii() and url.isprintable() and " " not in url, "we made the address"
    return (
        f"List-Unsubscribe: <{url}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    ).encode()


def _reason(error: Exception) -> str:
    code = getattr(error, "code", None)
    return type(error).__name__ if code is None else f"{type(error).__name__} {code}"


_conforms: type[Mailer] = SmtpMailer
_conforms_too: type[MailConnection] = _Connection
