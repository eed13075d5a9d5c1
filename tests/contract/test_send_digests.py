# SPDX-License-Identifier: Apache-2.0
"""Digests of sends go with their author: after an erasure they confirm no guess."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.builders import a_chat
from tests.contract.engines import Store
from tests.support.clock import NOW, ManualClock
from tests.support.users import ANN, BOB
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.sending import PLAIN_TEXT, Post
from tidings.actions.content.data_keys import is_same_send
from tidings.actions.content.vault import Vault
from tidings.assembly.system import SystemChance, back_off
from tidings.buses.in_process import InProcessBus
from tidings.keyrings import FileKeyring
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal, SendConflict


class Sender:
    """Ann, who sends and repeats."""

    def __init__(self, store: Store, vault: Vault, appender: Appender, chat: ChatId) -> None:
        self.store = store
        self.vault = vault
        self.chat = chat
        self._post = Post(appender, store.log, vault, ManualClock())

    async def send(self, text: str) -> tuple[Entry, bool]:
        """Always under the same id: the message, and whether it is a replay."""
        done: asyncio.Future[tuple[Entry | Refusal, bool]] = (
            asyncio.get_running_loop().create_future()
        )
        self._post(ANN, self.chat, "m1", text, None, None, lambda *told: done.set_result(told))
        result, is_replay = await done
        if isinstance(result, Refusal):
            raise result
        return result, is_replay

    async def kept_digest(self) -> bytes:
        """What the store knows of the send."""
        sent = await self.store.log.find_sent(self.chat, SendKey(ANN, "m1", b"", 0), NOW)
        assert sent is not None
        assert sent.digest is not None
        return sent.digest


@pytest.fixture
async def sender(store: Store, tmp_path: Path) -> AsyncIterator[Sender]:
    (tmp_path / "keys").mkdir()
    vault = Vault(
        store.data_keys,
        store.deployment,
        FileKeyring(tmp_path / "keys", SystemChance()),
        SystemChance(),
        ManualClock(),
    )
    await vault.start()
    appender = Appender(store.log, InProcessBus(), ManualClock(), SystemChance(), back_off)
    state = await a_chat(store)
    yield Sender(store, vault, appender, state.chat_id)
    await appender.close()
    await vault.close()


@pytest.mark.attack("S27")
async def test_after_an_erasure_no_digest_confirms_a_guess(sender: Sender) -> None:
    await sender.send("secret")
    kept = await sender.kept_digest()
    told = f"{PLAIN_TEXT}\0None\0secret"

    async def guesses() -> set[bytes]:
        """What can be computed for the right guess with all keys that there are."""
        sealed = [
            await sender.vault.seal(author, sender.chat, "m1", "secret", told)
            for author in (ANN, BOB)
        ]
        with_own_keys = {one.digest for one in sealed}
        return {*with_own_keys, sender.vault.digest("secret", PLAIN_TEXT, "None")}

    assert kept in await guesses()
    await sender.vault.erase(ANN)
    assert not {digest[: len(kept)] for digest in await guesses()} & {kept}


@pytest.mark.attack("S27")
async def test_a_repeat_after_an_erasure_is_answered_and_makes_nothing_new(sender: Sender) -> None:
    first, _ = await sender.send("secret")
    with pytest.raises(SendConflict):
        await sender.send("other")
    await sender.vault.erase(ANN)

    for text in ("secret", "other"):
        again, is_replay = await sender.send(text)
        assert (again.sequence, is_replay) == (first.sequence, True)
        await sender.vault.open([again], NOW)
        assert (again.content, again.gone) == (None, "erased")


def test_sends_are_compared_only_under_the_same_key() -> None:
    one, other, later = b"a" * 16 + b"\0\0\0\1", b"b" * 16 + b"\0\0\0\1", b"a" * 16 + b"\0\0\0\2"
    assert is_same_send(one, one)
    assert not is_same_send(one, other)
    assert is_same_send(later, other), "the key of the other is gone"
    assert is_same_send(one, b"a" * 16), "from before digests had keys of their own"
