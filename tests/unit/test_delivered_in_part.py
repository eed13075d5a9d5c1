# SPDX-License-Identifier: Apache-2.0
"""A delivery job whose attempt failed for some of its users: each user is notified once."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.engines import SqliteEngine
from tests.contract.inbox_builders import TENANT, a_notification, a_reachable, some_jobs
from tests.support.clock import NOW, ManualClock
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.delivering import DeliverCopies
from tidings.buses.in_process import InProcessBus
from tidings.model.ids import UserKey, user_key
from tidings.model.notifications import Copy
from tidings.model.push_rules import YOUNG_MS_MAX
from tidings.ports.bus import CopiesMade
from tidings.ports.inboxes import DeliveredInPart

ANN, BOB = user_key(TENANT, "ann"), user_key(TENANT, "bob")


@pytest.mark.parametrize("age_ms", [0, YOUNG_MS_MAX + 1])
async def test_who_got_a_copy_with_an_attempt_that_failed_is_notified_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ms: int
) -> None:
    async with SqliteEngine(tmp_path).open() as store:
        bus, clock = InProcessBus(), ManualClock()
        clock.time = NOW + age_ms
        deliver = DeliverCopies(
            notifications=store.notifications, copies=store.copies, reachable=a_reachable(store),
            views=LogViews(store.notifications, clock), bus=bus, clock=clock,
        )  # fmt: skip
        pushed, connected = list[tuple[UserKey, ...]](), list[tuple[UserKey, ...]]()
        deliver.listen(lambda _, users: pushed.append(tuple(users)))
        bus.subscribe(lambda event: connected.append(event.users), CopiesMade)
        (job,) = some_jobs(1, users=("ann", "bob"))
        await store.notifications.put(a_notification(job.notification_id))
        real = store.copies.deliver

        async def deliver_to_first(
            users: Sequence[UserKey], inbox: str, copy: Copy
        ) -> list[UserKey]:
            raise DeliveredInPart(await real(users[:1], inbox, copy))

        with monkeypatch.context() as trouble:
            trouble.setattr(store.copies, "deliver", deliver_to_first)
            with pytest.raises(DeliveredInPart):
                await deliver(job)
        await deliver(job)
    assert pushed == [(ANN,), (BOB,)]
    assert connected == [(ANN,), (BOB,) if age_ms else (ANN, BOB)]
