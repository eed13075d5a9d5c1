# SPDX-License-Identifier: Apache-2.0
"""Gives clients of a local engine their credentials at once, because the SDK searches for them for
ten milliseconds, and almost every test on DynamoDB opens several clients.

Tests that set other credentials, or need some that are real, still get what the SDK finds.
"""

import os
from typing import Final

from tidings.aws import transport
from tidings.aws.transport import CredentialSource, find_credentials

LOCAL: Final = "local"
"""Access key of the tests; DynamoDB Local accepts any."""


def give_credentials_at_once() -> None:
    """Make clients that are opened in this process from now on use the credentials of the tests."""
    vars(transport).update(find_credentials=_find)


async def _find(*, is_needed: bool) -> CredentialSource:
    if is_needed or os.environ.get("AWS_ACCESS_KEY_ID") != LOCAL:
        return await find_credentials(is_needed=is_needed)
    return CredentialSource(None)
