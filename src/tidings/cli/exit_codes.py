# SPDX-License-Identifier: Apache-2.0
"""Turns the errors of a command into a line on standard error and an exit code."""

import sys
from collections.abc import Callable
from typing import Final

from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError

UNREACHED: Final = 1
"""Exit code if a retry may succeed."""


def exit_code_of(run: Callable[[], int]) -> int:
    """Run a command; return its exit code."""
    try:
        return run()
    except SetupError as error:
        return _fail(str(error), error.exit_code)
    except StoreUnavailable as reason:
        return _fail(f"{reason.title}: {reason.__cause__ or reason.detail}", UNREACHED)


def _fail(reason: str, exit_code: int) -> int:
    print(f"tidings: {reason}", file=sys.stderr)
    return exit_code
