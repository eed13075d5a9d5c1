# SPDX-License-Identifier: Apache-2.0
"""What holds for every unit test."""

from tests.support.asyncio_errors import no_lost_errors

__all__ = ["no_lost_errors"]
