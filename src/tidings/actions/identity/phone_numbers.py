# SPDX-License-Identifier: Apache-2.0
"""Convert phone numbers to E.164, the one form in which they are stored."""

import unicodedata
from typing import Final, NamedTuple

from tidings.model.refusals import Invalid

NUMBER_CHARS_MAX: Final = 64
"""Maximum length of a written number, with all grouping characters."""

_PLUS: Final = ("+", "\uff0b")
_DASHES: Final = "-\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"
_GROUPING: Final = frozenset(" ()./\u00a0\u2009\u202f\u3000\uff08\uff09\uff0e\uff0f" + _DASHES)
_LAST_DIGITS: Final = 4


class Reach(NamedTuple):
    """The groups of numbers that a number shares budgets with."""

    prefix: str
    """The number without its last four digits."""
    country: str
    """The calling code, such as +41."""


def normal_form(text: str, pointer: str = "/phone_number") -> str:
    """Return the number in E.164, which is the same for every way to write the number.

    Raises:
        Invalid: Not a possible international number.
    """
    number = find_normal_form(text)
    if number is None:
        field = pointer.rpartition("/")[2]
        raise Invalid(f"{field} must be an international number, such as +14155550123", pointer)
    return number


def find_normal_form(text: str) -> str | None:
    """Return the number in E.164; None if the text is not a possible international number."""
    digits = _digits(text.strip(" "))
    if digits is None:
        return None
    # Imported on first use: it takes 40 ms, and most servers never handle a number.
    import phonenumbers

    try:
        number = phonenumbers.parse(f"+{digits}", None)
    except phonenumbers.NumberParseException:
        return None
    # Not `is_valid_number`: the library's list of assigned ranges becomes outdated.
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def reach(number: str) -> Reach:
    """Return the prefix and the country of a number in E.164."""
    import phonenumbers

    code = phonenumbers.parse(number, None).country_code
    return Reach(number[:-_LAST_DIGITS], f"+{code}")


def _digits(written: str) -> str | None:
    """Return the digits of a text that is written like an international number, else None.

    The library alone would also accept words, extensions and parameters, and does not know every
    space and dash that people group digits with.
    """
    if len(written) > NUMBER_CHARS_MAX or not written.startswith(_PLUS):
        return None
    grouped = [char for char in written[1:] if char not in _GROUPING]
    digits = [unicodedata.decimal(char, -1) for char in grouped]
    return None if -1 in digits else "".join(map(str, digits))
