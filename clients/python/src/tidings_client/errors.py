# SPDX-License-Identifier: Apache-2.0
"""The exceptions of this client.

TidingsError
├── Refused         the server declined the request; it had no effect and will have none
│   └── SendExpired the message was not confirmed for six days
├── Unavailable     no answer, so the outcome is unknown; repeat the request with the same key
├── OutboxFull      too many messages are waiting
├── ClientClosed    the client was closed; messages in the outbox stay there
├── WebhookRefused  a request is not a genuine webhook
├── ClientStopped   the server told this client not to reconnect
│   └── LoggedOut       nobody is logged in, or the session has ended: log in again
└── StorageTrouble  the storage cannot be read or written
    ├── StorageBusy     another client has the file open
    └── WrongUser       the file belongs to another user
"""

from typing import Final

NOT_AUTHENTICATED: Final = 4401


class TidingsError(Exception):
    """Base class of all exceptions of this client."""


class Refused(TidingsError):
    """The server declined the request; the stable `code` gives the reason."""

    def __init__(self, code: str, detail: str, status: int | None = None) -> None:
        self.code, self.detail, self.status = code, detail, status
        super().__init__(f"{code}: {detail}")


class SendExpired(Refused):
    """The message was not confirmed for six days, and is not sent again.

    The server forgets the key of a message after seven days, so a later repeat could be stored as
    a second message.
    """

    def __init__(self) -> None:
        super().__init__(
            "outbox.expired", "not confirmed within six days; whether it arrived is unknown"
        )


class Unavailable(TidingsError):
    """There was no answer, or the server is unavailable now. The request may be repeated."""


class OutboxFull(TidingsError):
    """Too many messages are waiting to be sent, so no other is accepted."""


class ClientClosed(TidingsError):
    """The client was closed. Messages in its outbox stay there for the next client."""


class ClientStopped(TidingsError):
    """The server closed the connection for a reason that a new connection would not remove."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{reason} ({code})")


class LoggedOut(ClientStopped):
    """Nobody is logged in: the session was revoked, has expired, or was never opened."""

    def __init__(self, reason: str) -> None:
        super().__init__(NOT_AUTHENTICATED, reason)


class StorageTrouble(TidingsError):
    """The storage cannot be read or written."""


class StorageBusy(StorageTrouble):
    """Another client uses this storage; two clients would overwrite each other's state."""


class WrongUser(StorageTrouble):
    """The storage belongs to another user, whose messages must not be sent as this user."""

    def __init__(self, expected: str, actual: str) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(f"the storage belongs to {expected}, and the token to {actual}")


class WebhookRefused(TidingsError):
    """The request is not a genuine webhook, or it is too old; answer with the status 400."""


def first_of(group: BaseExceptionGroup[Exception]) -> Exception:
    """Return the first error in a group, which may contain groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
