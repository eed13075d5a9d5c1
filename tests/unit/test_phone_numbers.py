# SPDX-License-Identifier: Apache-2.0
"""Phone numbers: however a number is written, it is the same one, or none."""

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.actions.identity.phone_numbers import (
    NUMBER_CHARS_MAX,
    find_normal_form,
    normal_form,
    reach,
)
from tidings.model.refusals import Invalid

SEPARATORS = [" ", "-", ".", "/", "\u00a0", "\u2011", "\u202f", "\u3000", "  ", "\uff0d"]
ZEROS = ["0", "\uff10", "\u0660", "\u0966"]
"""Digits in several scripts, by their first."""
REGIONS = ["CH", "DE", "US", "GB", "IT", "IN", "BR", "JP", "FR", "KE"]


def example(region: str) -> str:
    number = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.MOBILE)
    assert number is not None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


NUMBERS = [example(region) for region in REGIONS]


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """A number, and a way to write it."""
    number = draw(st.sampled_from(NUMBERS))
    zero = ord(draw(st.sampled_from(ZEROS)))
    written = draw(st.sampled_from("+\uff0b"))
    for digit in number[1:]:
        written += chr(zero + int(digit))
        if draw(st.booleans()):
            written += draw(st.sampled_from(SEPARATORS))
    around = st.sampled_from(["", " ", "   "])
    return number, draw(around) + written.rstrip("/.-\uff0d\u2011") + draw(around)


@given(spellings())
@pytest.mark.attack("B06")
def test_every_spelling_of_a_number_has_one_normal_form(spelling: tuple[str, str]) -> None:
    number, written = spelling
    if len(written.strip(" ")) <= NUMBER_CHARS_MAX:
        assert normal_form(written) == number
    assert normal_form(number) == number, "the normal form is its own"


@given(st.text(max_size=80) | st.text("+0123456789 ()-x;=e\uff0b\uff11\u0661", max_size=80))
def test_any_text_is_a_number_in_normal_form_or_none(text: str) -> None:
    number = find_normal_form(text)
    if number is not None:
        assert number.isascii() and number[0] == "+" and number[1:].isdigit()
        assert 8 <= len(number) <= 16
        assert find_normal_form(number) == number


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("+44 (0)20 7946 0018", "+442079460018"),
        ("+39 06 1234 5678", "+390612345678"),
        ("\uff0b\uff11\uff08415\uff09555\uff0d0123", "+14155550123"),
    ],
)
@pytest.mark.attack("B06")
def test_prefixes_of_a_country_s_own_are_understood(written: str, number: str) -> None:
    assert normal_form(written) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "++14155550123",
        "14155550123",
        "0014155550123",
        "+0014155550123",
        "+1415555012",
        "+14155550123x5",
        "+14155550123;ext=5",
        "+1800FLOWERS",
        "+14155550123\n",
        "+1\t4155550123",
    ],
)
@pytest.mark.attack("B06")
def test_what_could_mean_two_things_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        normal_form(text, "/numbers/3")
    assert caught.value.pointer == "/numbers/3"


def test_how_far_a_number_reaches() -> None:
    assert reach("+41791234567") == ("+4179123", "+41")
    assert reach("+14155550123") == ("+1415555", "+1")
