# SPDX-License-Identifier: Apache-2.0
"""Facts of an export about push. Targets and credentials stay encrypted."""

from tidings.model.ids import UserKey
from tidings.model.push import ContentRule
from tidings.ports.export_inbox_facts import FactBase


class PushDeviceFact(FactBase, frozen=True, kw_only=True, tag="push_device"):
    """A device that is registered for push; see `model.push`."""

    user_id: UserKey
    device: str
    provider: str
    app: str | None = None
    box: str
    digest: str
    session_id: str | None = None
    created_at: int


class PushSettingsFact(FactBase, frozen=True, kw_only=True, tag="push_settings"):
    """The push settings of a tenant."""

    tenant: str
    content: ContentRule
    providers: tuple[str, ...] = ()
    box: str
    updated_at: int


PushFacts = PushDeviceFact | PushSettingsFact
