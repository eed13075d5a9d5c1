# SPDX-License-Identifier: Apache-2.0
"""Child process that checks one value against one schema; its exit code is the result."""

import os
import resource
import sys
from typing import Any, Final

import msgspec
from jsonschema_rs import Draft202012Validator, RegexOptions

from tidings.model import limits

VALID: Final = 10
NOT_VALID: Final = 11
"""Exit codes. Both differ from the exit codes of a process that failed or was killed."""


class Question(msgspec.Struct):
    """A value, and the schema to check it against."""

    schema: dict[str, Any]
    value: object


def main() -> int:
    """Check the value on standard input against its schema, and return the exit code."""
    # The kernel kills a check that takes too long, whatever the library is doing.
    seconds = limits.SCHEMA_CHECK_SECONDS_MAX
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.nice(10)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    options = RegexOptions(
        size_limit=limits.PATTERN_BYTES_MAX, dfa_size_limit=limits.PATTERN_BYTES_MAX
    )
    validator = Draft202012Validator(question.schema, pattern_options=options, offline=True)
    return VALID if validator.is_valid(question.value) else NOT_VALID


if __name__ == "__main__":
    sys.exit(main())
