# SPDX-License-Identifier: Apache-2.0
"""Port for the mail server of the operator."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tidings.model.emails import Email, EmailOutcome


class MailUnavailable(Exception):
    """The mail server cannot be reached, or refuses to talk; the text is the reason, for the log.

    It has not taken the e-mail.
    """


class MailConnection(Protocol):
    """A connection to the mail server, for one e-mail after the other."""

    async def send(self, email: Email) -> EmailOutcome:
        """Send an e-mail. If the outcome is unknown, it must not be sent again.

        Raises:
            MailUnavailable: The connection broke, or the server wants nothing now; the e-mail was
                not sent.
        """
        ...


class Mailer(Protocol):
    """Sends e-mails through the mail server of the operator."""

    def connect(self) -> AbstractAsyncContextManager[MailConnection]:
        """Connect to the mail server, with TLS and the credentials of the operator.

        Raises:
            MailUnavailable: There is no connection.
        """
        ...
