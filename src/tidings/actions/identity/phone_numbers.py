# SPDX-License-Identifier: Apache-2.0
"""Phone numbers: many ways to write one, one way to keep it."""

import unicodedata
from typing import Final, NamedTuple

from tidings.model.refusals import Invalid

NUMBER_CHARS_MAX: Final = 64
"""However it is grouped, nobody writes a number in more."""

_PLUS: Final = ("+", "\uff0b")
_DASHES: Final = "-\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"
_GROUPING: Final = frozenset(" ()./\u00a0\u2009\u202f\u3000\uff08\uff09\uff0e\uff0f" + _DASHES)
_LAST_DIGITS: Final = 4


class Reach(NamedTuple):
    """Which numbers one belongs with: what is charged for one is charged for its neighbours."""

    prefix: str
    """The number without its last four digits."""
    country: str
    """Its calling code, such as +41."""


def normal_form(text: str, pointer: str = "/phone_number") -> str:
    """The number in E.164: every way to write a number gives the same.

    Raises:
        Invalid: Not an international number that can be called.
    """
    number = find_normal_form(text)
    if number is None:
        field = pointer.rpartition("/")[2]
        raise Invalid(f"{field}: an international number, such as +14155550123", pointer)
    return number


def find_normal_form(text: str) -> str | None:
    """Likewise; None for what is not such a number."""
    digits = _digits(text.strip(" "))
    if digits is None:
        return None
    # Only here: loading it takes 40 ms, and most servers never see a number.
    import phonenumbers

    try:
        number = phonenumbers.parse(f"+{digits}", None)
    except phonenumbers.NumberParseException:
        return None
    # Not whether it is given out: what the library knows of that ages, and new ranges come.
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def reach(number: str) -> Reach:
    """Of a number in its normal form."""
    import phonenumbers

    code = phonenumbers.parse(number, None).country_code
    return Reach(number[:-_LAST_DIGITS], f"+{code}")


def _digits(written: str) -> str | None:
    """The digits of what is written like an international number; None if it is not.

    The library takes more for a number than this: words, extensions, parameters. And it does not
    know every space and dash that people group digits with.
    """
    if len(written) > NUMBER_CHARS_MAX or not written.startswith(_PLUS):
        return None
    grouped = [char for char in written[1:] if char not in _GROUPING]
    digits = [unicodedata.decimal(char, -1) for char in grouped]
    return None if -1 in digits else "".join(map(str, digits))
