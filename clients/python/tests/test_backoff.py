# SPDX-License-Identifier: Apache-2.0
"""Which end of a connection leads to what."""

import pytest

from tidings_client.backoff import (
    WORDS,
    Backoff,
    Close,
    Ended,
    Retry,
    Stop,
    retry_after_seconds,
)


def a_backoff() -> Backoff:
    return Backoff(lambda least, most: most)


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1011, 1012, 1013, 4408, 4409, 4429])
def test_these_come_back_by_themselves(code: int | None) -> None:
    assert a_backoff().after(Ended("", code)) == Retry(1.0)


@pytest.mark.parametrize("code", [4400, 4403, 4413])
def test_these_do_not(code: int) -> None:
    assert a_backoff().after(Ended("", code)) == Stop()


def test_pauses_double_up_to_a_minute_and_start_anew_after_a_steady_connection() -> None:
    backoff = a_backoff()
    pauses = [backoff.after(Ended("")) for _ in range(8)]
    assert pauses == [Retry(seconds) for seconds in (1, 2, 4, 8, 16, 32, 60, 60)]
    backoff.steady()
    assert backoff.after(Ended("")) == Retry(1.0)


def test_full_jitter_asks_for_anything_from_nothing_on() -> None:
    asked: list[tuple[float, float]] = []

    def jitter(least: float, most: float) -> float:
        asked.append((least, most))
        return least

    assert Backoff(jitter).after(Ended("")) == Retry(0)
    assert asked == [(0, 1)]


def test_the_server_may_say_when() -> None:
    backoff = a_backoff()
    assert backoff.after(Ended("", 1012, retry_after_ms=2_500)) == Retry(2.5)
    assert backoff.after(Ended("", 1012, retry_after_ms=0)) == Retry(0)


def test_an_unknown_code_with_a_word_against_coming_back() -> None:
    assert a_backoff().after(Ended("", 4999, is_final=True)) == Stop()
    assert a_backoff().after(Ended("", 4999)) == Retry(1.0)


def test_a_refused_token_is_replaced_at_once_and_then_more_slowly() -> None:
    backoff = a_backoff()
    refused = Ended("", Close.NOT_AUTHENTICATED, retry_after_ms=0)
    assert backoff.after(refused) == Retry(0, needs_token=True)
    assert backoff.after(refused) == Retry(1, needs_token=True)
    assert backoff.after(refused) == Retry(2, needs_token=True)
    backoff.steady()
    assert backoff.after(refused) == Retry(0, needs_token=True)


def test_every_code_has_words() -> None:
    assert set(WORDS) == set(Close)


def test_who_was_turned_away_stays_away_as_long_as_asked_and_then_spreads() -> None:
    backoff = a_backoff()
    assert backoff.after(Ended("", away_seconds=7)) == Retry(7 + 1)
    assert backoff.after(Ended("", away_seconds=7)) == Retry(7 + 2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("86400", 60.0),
        ("inf", 60.0),
        ("nan", 3.0),
        ("-1", 3.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 3.0),
        ("", 3.0),
        (None, 3.0),
    ],
)
def test_retry_after_is_followed_within_reason(text: str | None, seconds: float) -> None:
    assert retry_after_seconds(text, otherwise=3.0, most=60.0) == seconds
