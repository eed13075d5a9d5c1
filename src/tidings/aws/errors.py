# SPDX-License-Identifier: Apache-2.0
"""Failures of a request to AWS, classified by what may have happened to the data."""


class RequestError(Exception):
    """A request failed; the subclass says whether it may have been carried out."""


class Unsent(RequestError):
    """The request never reached the service: nothing happened."""


class Unanswered(RequestError):
    """No answer arrived: the request may have been carried out or not."""


class Throttled(RequestError):
    """The service refused the request for the moment: nothing happened."""


class Rejected(RequestError):
    """The service will never carry out this request: a mistake in the program or its setup.

    Nothing happened.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoCredentials(Exception):
    """No AWS credentials were found; the text tells the operator how to supply them."""

    def __init__(self) -> None:
        super().__init__(
            "no AWS credentials were found: give the process a role or a profile, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
