# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions that carry data.

TidingsError
├── Refused         the server understood and declined; nothing happened and nothing will
│   └── SendExpired the message could not be confirmed for six days
├── Unavailable     no answer, or not now: the outcome is unknown; repeat with the same key
├── OutboxFull      too many messages wait already
├── ClientClosed    the client was closed meanwhile; what is in the outbox stays there
├── ClientStopped   the server does not want this client back
│   └── LoggedOut       the session has ended, or there never was one: log in
└── StorageTrouble  what has to be kept cannot be kept
    ├── StorageBusy     another client has the file open
    └── WrongUser       the file belongs to another user
"""

from typing import Final

NOT_AUTHENTICATED: Final = 4401


class TidingsError(Exception):
    """Anything this client raises."""


class Refused(TidingsError):
    """The server declined. `code` is stable and says why."""

    def __init__(self, code: str, detail: str, status: int | None = None) -> None:
        self.code, self.detail, self.status = code, detail, status
        super().__init__(f"{code}: {detail}")


class SendExpired(Refused):
    """Not confirmed for six days: the server forgets the key after seven, so no further try."""

    def __init__(self) -> None:
        super().__init__(
            "outbox.expired", "not confirmed within six days; whether it arrived is unknown"
        )


class Unavailable(TidingsError):
    """There was no answer, or none for now. The same request may be repeated."""


class OutboxFull(TidingsError):
    """So many messages wait to be sent that another one cannot be taken."""


class ClientClosed(TidingsError):
    """The client was closed. Messages in its outbox stay there for the next one."""


class ClientStopped(TidingsError):
    """The server closed the connection in a way that coming back would not help."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{reason} ({code})")


class LoggedOut(ClientStopped):
    """Nobody is logged in: the session was ended, has expired, or was never opened."""

    def __init__(self, reason: str) -> None:
        super().__init__(NOT_AUTHENTICATED, reason)


class StorageTrouble(TidingsError):
    """The storage cannot keep what it has to keep."""


class StorageBusy(StorageTrouble):
    """Another client uses this storage: two of them would overwrite each other."""


class WrongUser(StorageTrouble):
    """The storage belongs to another user, whose outbox must not be sent under this name."""

    def __init__(self, expected: str, actual: str) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(f"the storage belongs to {expected}, and the token to {actual}")
