# SPDX-License-Identifier: Apache-2.0
"""Reads the fields of credentials and registrations, which tenants and users give."""

import re
from collections.abc import Collection, Mapping

from tidings.model.refusals import Invalid


class Fields:
    """The fields of a JSON object; refusals name the field."""

    def __init__(
        self, pointer: str, given: Mapping[str, object], known: Collection[str] | None = None
    ) -> None:
        """Take the object that the pointer points to.

        Raises:
            Invalid: A field is not known. Without `known`, other fields are ignored.
        """
        self._pointer = pointer
        self._given = given
        for name in given:
            if known is not None and name not in known:
                raise self.refusal(name, f"is not one of {', '.join(sorted(known))}")

    def refusal(self, name: str, problem: str) -> Invalid:
        """Return the refusal for a problem with a field."""
        return Invalid(f"{name}: {problem}", f"{self._pointer}/{name}")

    def optional_text(self, name: str, pattern: re.Pattern[str], expected: str) -> str | None:
        """Return a text that matches the pattern; None if there is none.

        Raises:
            Invalid: The value does not match the pattern.
        """
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.refusal(name, f"must be {expected}")
        return value

    def text(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        """Return a text that matches the pattern.

        Raises:
            Invalid: The value is missing, or does not match the pattern.
        """
        value = self.optional_text(name, pattern, expected)
        if value is None:
            raise self.refusal(name, f"must be {expected}")
        return value

    def flag(self, name: str) -> bool:
        """Return a truth value; False if there is none.

        Raises:
            Invalid: The value is not true or false.
        """
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.refusal(name, "must be true or false")
        return bool(value)

    def mapping(self, name: str) -> Mapping[str, object]:
        """Return a JSON object.

        Raises:
            Invalid: The value is missing, or is not an object.
        """
        value = self._given.get(name)
        if not isinstance(value, Mapping):
            raise self.refusal(name, "must be an object")
        return value
