# SPDX-License-Identifier: Apache-2.0
"""Port for requests to addresses that tenants choose."""

from collections.abc import Sequence
from typing import Protocol


class PostFailed(Exception):
    """A request was not answered with success; the text is the reason, for the log."""

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        *,
        retry_after_ms: int | None = None,
        is_unsent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status = status
        """Status of the answer; None if there was none, or if it was not complete."""
        self.retry_after_ms = retry_after_ms
        """How long the answer asks to wait, if it does."""
        self.is_unsent = is_unsent
        """Whether it is certain that nothing was sent, because there was no connection."""


class PostRefused(PostFailed):
    """The server may not connect to the address, so nothing was sent."""


class SignedPosts(Protocol):
    """Posts signed requests. It connects to no address that the operator does not allow."""

    async def post(self, url: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int) -> bytes:
        """Post a JSON body, signed with every secret; return the body of the answer.

        Redirects are not followed. The answer is complete, and was given within the time.

        Raises:
            PostRefused: The address is not allowed.
            PostFailed: There was no answer in time, or no answer with a status from 200 to 299.
        """
        ...


class EventPosts(Protocol):
    """Posts signed events, under the same rules as `SignedPosts`."""

    async def send(
        self, url: str, post_id: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int
    ) -> int:
        """Post a JSON body under this id, signed with every secret; return the answer's status.

        Redirects are not followed. The body of the answer is not read.

        Raises:
            PostFailed: There was no answer in time, or the address is not allowed.
        """
        ...
