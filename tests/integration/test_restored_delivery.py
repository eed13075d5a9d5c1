# SPDX-License-Identifier: Apache-2.0
"""A data folder that was restored from a backup sends nothing that was erased after the backup."""

import ipaddress
from pathlib import Path
from typing import Any

from tests.integration.cores import Deployment, open_deployment
from tests.support.clock import ManualClock
from tests.support.settings import config_of
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver, open_receiver
from tidings.actions.identity.caller import Root
from tidings.actions.identity.signing_keys import SigningKeyMaker
from tidings.actions.identity.tenants import PutTenant
from tidings.assembly.delivery import run_delivery
from tidings.model.entries import Entry
from tidings.model.ids import user_key
from tidings.ports.erasing import LedgerEntry
from tidings.stores.sqlite.identity.erasing import LEDGER, append_lines

ALLOWED = {"outgoing_allow": (ipaddress.ip_network("127.0.0.1"),)}
EARLIER = 60
"""Erasures before the one that matters. They are carried out in the order of their times."""


async def owe_a_message(deployment: Deployment, receiver: WebhookReceiver) -> tuple[Entry, Entry]:
    """Owe an endpoint the messages of two chats, as if it had been down when the backup was
    made."""
    core = deployment.core
    await deployment.people(ANN, BOB)
    maker = SigningKeyMaker(core.vault.wrapping, core.chance)
    await PutTenant(core.store.tenants, core.signing, maker, core.clock)(Root(), "acme", None)
    _, secret = await core.webhooks.configure.put(
        Root(),
        "acme",
        "main",
        url=receiver.url,
        events=("message.created", "chat.deleted"),
        enabled=True,
        resume="place",
    )
    receiver.secret = secret or ""
    sent = []
    for _ in range(2):
        chat = await deployment.group(ANN, BOB)
        message = await deployment.writing.send(ANN, chat, "the secret of Ann")
        await core.webhook_delivery.owe("acme", chat, message.sequence, message.sequence)
        sent.append(message)
    return sent[0], sent[1]


async def test_a_webhook_gets_nothing_that_is_erased_again(tmp_path: Path) -> None:
    folder, clock, settings = tmp_path / "data", ManualClock(), dict[str, Any](ALLOWED)
    async with open_receiver() as receiver:
        async with open_deployment(folder, clock=clock, settings=settings) as before:
            erased, deleted = await owe_a_message(before, receiver)
        at = clock.now()
        erasures = [
            LedgerEntry("content", user_key("acme", f"user{number}"), at + 1)
            for number in range(EARLIER)
        ]
        erasures.append(LedgerEntry("content", ANN, at + 2))
        erasures.append(LedgerEntry("chat", deleted.chat_id, at + 3, by=ANN))
        append_lines(folder / LEDGER, erasures)
        clock.time += 10
        config = config_of(data=folder, port=0, **settings)
        async with (
            open_deployment(folder, clock=clock, settings=settings) as restored,
            run_delivery(config, restored.core, None),
        ):
            await until(lambda: set(receiver.types()) == {"message.created", "chat.deleted"})
            assert await restored.core.store.ledger.unknown() == []
        texts = [one.data.get("content") for one in receiver.asked]
        assert not any(texts), "the content was erased before anything was posted"
        places = {one.place[0] for one in receiver.taken}
        assert places == {erased.chat_id, deleted.chat_id}
