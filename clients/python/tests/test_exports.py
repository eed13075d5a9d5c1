# SPDX-License-Identifier: Apache-2.0
"""What the package offers is what it names, and every event is part of it."""

from typing import get_args

import tidings_client
from tidings_client import events


def test_every_event_is_exported() -> None:
    names = {kind.__name__ for kind in get_args(events.Event)}
    assert names <= set(tidings_client.__all__)


def test_every_name_is_there() -> None:
    assert all(hasattr(tidings_client, name) for name in tidings_client.__all__)
    assert sorted(tidings_client.__all__) == list(tidings_client.__all__)
