# SPDX-License-Identifier: Apache-2.0
"""What the package offers is what it names, and every event is part of it."""

from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest

import tidings_client
from tidings_client import (
    events,
    inbox,
    listed,
    notifications,
    people,
    preferences,
    push,
    records,
    root_api,
    scheduled,
    tenant_records,
    webhook_api,
)
from tidings_client.api import Api
from tidings_client.inbox import Inbox
from tidings_client.root_api import RootApi
from tidings_client.tenant_api import TenantApi

README = Path(tidings_client.__file__).parents[2] / "README.md"
ANSWERS = (
    *(inbox, listed, notifications, people, preferences, push, records, root_api, scheduled),
    *(tenant_records, webhook_api),
)
"""The modules with the types of answers."""


def test_every_event_is_exported() -> None:
    names = {kind.__name__ for kind in get_args(events.Event)}
    assert names <= set(tidings_client.__all__)


def test_every_name_is_there() -> None:
    assert all(hasattr(tidings_client, name) for name in tidings_client.__all__)
    assert sorted(tidings_client.__all__) == list(tidings_client.__all__)


@pytest.mark.parametrize("module", ANSWERS, ids=lambda module: str(module.__name__))
def test_the_types_of_answers_are_exported(module: ModuleType) -> None:
    names = {
        name
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not name.startswith("_")
    }
    assert names - {"Struct"} <= set(tidings_client.__all__)


def test_the_readme_names_every_event() -> None:
    text = README.read_text(encoding="utf-8")
    names = {kind.__name__ for kind in get_args(events.Event)}
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("kind", [Api, Inbox, RootApi, TenantApi])
def test_the_readme_names_every_request(kind: type) -> None:
    text = README.read_text(encoding="utf-8")
    names = {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }
    assert {name for name in names - {"close"} if f"`{name}`" not in text} == set()
