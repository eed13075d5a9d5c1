# SPDX-License-Identifier: Apache-2.0
"""The rank test of the benchmark tells samples apart, and finds nothing between equal ones."""

import random

import pytest

from bench.blocked import SIGNIFICANT_Z, rank_test


def test_equal_samples_are_not_apart() -> None:
    assert rank_test([1, 2, 3], [1, 2, 3]) == (0.0, 0.5)
    assert rank_test([5] * 9, [5] * 4) == (0.0, 0.5)


def test_a_small_difference_shows_in_many_values() -> None:
    chance = random.Random(3)
    slower = [round(chance.gauss(103, 10)) for _ in range(1_000)]
    other = [round(chance.gauss(100, 10)) for _ in range(1_000)]
    z, higher = rank_test(slower, other)
    assert z > SIGNIFICANT_Z and higher > 0.55
    assert rank_test(other, slower) == pytest.approx((-z, 1 - higher))
