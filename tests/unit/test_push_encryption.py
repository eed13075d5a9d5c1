# SPDX-License-Identifier: Apache-2.0
"""What the server encrypts for a browser, and whether the browser can read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.web_push_service import Browser
from tidings.assembly.system import SystemChance
from tidings.outgoing.push.elliptic_keys import (
    from_base64url,
    new_private_key,
    read_private_key,
    read_public_key,
    to_base64url,
    write_private_key,
)
from tidings.outgoing.push.encryption import (
    BODY_BYTES_MAX,
    TEXT_BYTES_MAX,
    SubscriptionKeys,
    encrypt,
    padded_length,
)

# RFC 8291, appendix A
TEXT = b"When I grow up, I want to be a watermelon"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
RECEIVER = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
RECEIVER_PUBLIC = (
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
)
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
    "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
    "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
CHANCE = SystemChance()


def test_the_example_of_the_standard_is_reproduced() -> None:
    body = encrypt(
        TEXT,
        SubscriptionKeys(from_base64url(RECEIVER_PUBLIC), from_base64url(AUTH)),
        sender=read_private_key(from_base64url(SENDER)),
        salt=from_base64url(SALT),
        padded_to=0,
    )
    assert to_base64url(body) == BODY


def test_the_test_browser_reads_the_example_of_the_standard() -> None:
    browser = Browser(read_private_key(from_base64url(RECEIVER)), from_base64url(AUTH))
    assert browser.subscription("https://x")["keys"]["p256dh"] == RECEIVER_PUBLIC
    assert browser.decrypt(from_base64url(BODY)) == (TEXT, 0)


@given(length=st.integers(0, TEXT_BYTES_MAX))
def test_a_browser_reads_every_text_and_bodies_are_of_few_lengths(length: int) -> None:
    browser = Browser.new()
    text = b"x" * length
    body = encrypt(
        text,
        browser.keys,
        sender=new_private_key(CHANCE),
        salt=CHANCE.token(16),
        padded_to=padded_length(length),
    )
    assert browser.decrypt(body)[0] == text
    assert len(body) <= BODY_BYTES_MAX
    assert (len(body) - 103) % 512 == 0 or len(body) == BODY_BYTES_MAX


def test_another_browser_reads_nothing() -> None:
    body = encrypt(
        TEXT,
        Browser.new().keys,
        sender=new_private_key(CHANCE),
        salt=CHANCE.token(16),
        padded_to=0,
    )
    with pytest.raises(Exception, match=r"^$"):  # InvalidTag has no text
        Browser.new().decrypt(body)


def test_a_key_survives_writing_and_reading() -> None:
    key = new_private_key(CHANCE)
    again = read_private_key(write_private_key(key))
    assert again.private_numbers() == key.private_numbers()


@pytest.mark.parametrize("number", [b"", bytes(32), b"\xff" * 32, bytes(33)])
def test_not_every_number_is_a_private_key(number: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_private_key(number)


@pytest.mark.parametrize("point", [b"", b"\4" + bytes(64), b"\2" + bytes(32), b"\4" * 65])
def test_not_every_point_is_a_public_key(point: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_public_key(point)


@pytest.mark.parametrize("text", ["a", "a+b/", "ab=c", "ä", "ab\n"])
def test_not_every_text_is_base64url(text: str) -> None:
    with pytest.raises(ValueError, match="base64url"):
        from_base64url(text)


def test_padding_of_base64url_is_optional() -> None:
    assert from_base64url("YQ") == from_base64url("YQ==") == b"a"
