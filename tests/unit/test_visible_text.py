# SPDX-License-Identifier: Apache-2.0
"""Names that people see: one rule for users, chats, tenants and inboxes; names that are dots."""

import sys
import unicodedata

import pytest

from tidings.actions.chat.members import check_name
from tidings.actions.identity.users import check_user_id, check_visible_text
from tidings.model import limits
from tidings.model.ids import DEVICE, USER, is_visible
from tidings.model.notifications import INBOX
from tidings.model.refusals import Invalid

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.attack("S20", "E06")
@pytest.mark.parametrize(
    "name",
    [
        "Ann",
        "Dvořák, Antonín",
        "李小龍",
        "山田\u3000太郎",
        "נועה",
        "می\u200cخواهم",  # Persian, where the joiner that does not join changes the letters
        "क्\u200dष",  # Devanagari, with a virama before the joiner
        "র\u200d্য",  # Bengali, with a virama after it
        "ක්\u200dර",  # Sinhala
        FAMILY,
        "\U0001f469\U0001f3fd\u200d\u2695\ufe0f",  # a doctor: skin tone, joiner, sign, selector
        "\U0001f3f3\ufe0f\u200d\U0001f308",  # a flag: selector before the joiner
        "e\u0301" * 100,
        "👍" * limits.NAME_CHARS_MAX,
    ],
)
def test_names_that_people_have_are_taken(name: str) -> None:
    assert is_visible(name)
    check_name(name)
    check_visible_text("display_name", name)


@pytest.mark.attack("S20", "E06")
def test_no_format_character_is_taken_between_letters() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    formats = [char for char in every if unicodedata.category(char) == "Cf"]
    assert len(formats) > 100 and "\u202e" in formats and "\u200d" in formats
    assert [char for char in formats if is_visible(f"ali{char}ce")] == []
    assert [char for char in formats if is_visible(f"alice{char}")] == []
    assert [char for char in formats if is_visible(f"{char}alice")] == []


@pytest.mark.attack("S20", "E06")
@pytest.mark.parametrize(
    "name",
    [
        "",
        " \u3000\u00a0",
        "a\nb",
        "a\u2028b",
        "\x00",
        "\ud800",
        "\u3164",  # a letter that is drawn as nothing
        "\u2800\u2800",
        "Ann\u115f",
        "A" + "\u0301" * (limits.NAME_MARKS_MAX + 1),
        "می\u200c",
        "\u200dمی",
        "\u0301\u200dمی",
        "می\u200c\u200cخواهم",
        "می\u200cx",
        "\U0001f468\u200c\U0001f469",
        "\U0001f468\u200d",
        "\U0001f468\u200d\u200d\U0001f469",
        "x" * (limits.NAME_CHARS_MAX + 1),
    ],
)
def test_names_that_hide_something_are_refused(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_visible_text("display_name", name)
    assert caught.value.pointer == "/display_name"
    with pytest.raises(Invalid) as caught:
        check_name(name)
    assert caught.value.pointer == "/name"


@pytest.mark.attack("S19", "D13")
@pytest.mark.parametrize("name", [".", ".."])
def test_dots_alone_are_no_name(name: str) -> None:
    assert USER.fullmatch(name) is None and INBOX.fullmatch(name) is None
    with pytest.raises(Invalid):
        check_user_id(name)
    assert DEVICE.fullmatch(name), "a device's name is in no path"


@pytest.mark.attack("D13")
@pytest.mark.parametrize("name", ["...", ".a", "a.", "..a", "a..b", "@", "x" * 64])
def test_dots_beside_something_else_are_a_name(name: str) -> None:
    assert USER.fullmatch(name) and INBOX.fullmatch(name)
