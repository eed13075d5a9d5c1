# SPDX-License-Identifier: Apache-2.0
"""The error that tells an operator what to change: a setting, key, file or library."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OPERATOR_MUST_ACT: Final = 2


class SetupError(Exception):
    """The operator has to change something first; the text says what.

    The command line prints the text and exits with `exit_code`.
    """

    def __init__(self, message: str, exit_code: int = OPERATOR_MUST_ACT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def optional_import(extra: str = "scale") -> Iterator[None]:
    """Run imports of libraries that only some deployments need, and that this extra installs.

    Raises:
        SetupError: A library is missing; the text says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SetupError(f"this needs {missing.name}: pip install 'tidings[{extra}]'") from missing
