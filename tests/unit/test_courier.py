# SPDX-License-Identifier: Apache-2.0
"""How long a webhook endpoint is left alone after a failure, and which failures are stored."""

from tests.support.clock import NOW
from tidings.delivery.courier import Courier
from tidings.model.webhooks import BACK_OFF_MS, BACK_OFF_MS_MAX, FIRST_BACK_OFF_MS


def waits(
    courier: Courier, now: int, count: int, stream: str = "chat", first: int = 1
) -> list[tuple[int, bool]]:
    """Let the endpoint fail so often, each time at the next event; return each time how long it is
    left alone, and whether the failure is stored."""
    found = []
    for number in range(count):
        is_stored = courier.back_off(now, stream, first + number)
        found.append((courier.retry_at - now, is_stored))
        now = courier.retry_at
    return found


def test_an_endpoint_that_fails_is_left_alone_for_longer_and_longer() -> None:
    found = waits(Courier(("acme", "main")), NOW, 10)
    assert [ms // BACK_OFF_MS for ms, _ in found[:5]] == [1, 1, 2, 4, 8]
    assert found[-1] == (BACK_OFF_MS_MAX, True)
    assert all(is_stored for _, is_stored in found)


def test_a_single_failure_of_an_endpoint_that_takes_events_costs_little() -> None:
    courier = Courier(("acme", "main"))
    for number in range(3):
        now = NOW + number
        courier.take(now)
        assert waits(courier, now + 1, 1, first=number) == [(FIRST_BACK_OFF_MS, False)]
        assert not courier.back_off(now + 1, "other", 1), "several at once count as one"
    courier.take(NOW)
    assert waits(courier, NOW + 1, 3, first=7) == [
        (FIRST_BACK_OFF_MS, False), (BACK_OFF_MS, True), (2 * BACK_OFF_MS, True)
    ]  # fmt: skip
    courier.take(NOW)
    assert waits(courier, NOW + BACK_OFF_MS, 1) == [(BACK_OFF_MS, True)]


def test_an_event_at_which_an_endpoint_always_fails_is_not_posted_twice_a_second() -> None:
    courier = Courier(("acme", "main"))
    for wait in ((FIRST_BACK_OFF_MS, False), (BACK_OFF_MS, True), (BACK_OFF_MS, True)):
        for stream in ("one", "another"):
            courier.take(NOW)
            assert waits(courier, NOW + 1, 1, stream) == [wait]
    courier.take(NOW)
    assert waits(courier, NOW + 1, 1, "one", first=2) == [(FIRST_BACK_OFF_MS, False)]
