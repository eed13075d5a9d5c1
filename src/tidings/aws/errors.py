# SPDX-License-Identifier: Apache-2.0
"""What can come of a request besides success, told apart by what may have happened to the data."""


class RequestError(Exception):
    """A request that did not succeed."""


class Unsent(RequestError):
    """It never reached the service: nothing happened."""


class Unanswered(RequestError):
    """It may have been carried out or not: the outcome is unknown."""


class Throttled(RequestError):
    """The service turned it away for the moment: nothing happened."""


class Rejected(RequestError):
    """The service understood it and will never carry it out: a mistake in program or set-up.

    Nothing happened.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoCredentials(Exception):
    """Nobody has said who asks; says to the operator how to."""

    def __init__(self) -> None:
        super().__init__(
            "no AWS credentials were found: give the process a role or a profile, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
