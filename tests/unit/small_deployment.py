# SPDX-License-Identifier: Apache-2.0
"""A small deployment for unit tests: the real store and key file in a folder, time by hand."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.support.clock import NOW, ManualClock
from tests.support.users import BOB
from tidings.actions.content.rotation import RotateKeys
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.caller import Root
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.signing_keys import SigningKeyMaker, SigningKeys, SigningKeyVerbs
from tidings.actions.identity.tenants import MakeTenantKey, MakeToken, PutTenant, RevokeTenantKey
from tidings.actions.identity.token_issuers import TenantIssuerKeys, TokenIssuerVerbs
from tidings.assembly.system import SystemChance
from tidings.keyrings import FileKeyring
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.model.webhooks import TenantEventType
from tidings.ports.secrets import DataKeys, MasterKeys
from tidings.ports.world import NoFailpoints
from tidings.stores.sqlite.store import SqliteStore, open_store

CHAT: Final = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")
ALICE: Final = user_key("acme", "alice")
ROOT_KEY: Final = "root-key-of-the-tests-0123456789abcdef"
ROOT: Final = Root()


class NoEvents:
    """Raises no events, because no tenant has webhooks."""

    async def __call__(
        self, tenant: str, kind: TenantEventType, data: Mapping[str, object]
    ) -> None:
        pass

    def is_wanted(self, tenant: str, kind: TenantEventType) -> bool:
        return False


@dataclass(frozen=True)
class SmallDeployment:
    """One opening of a deployment."""

    folder: Path
    store: SqliteStore
    master: MasterKeys
    clock: ManualClock
    vault: Vault
    signing: SigningKeys
    watch: RevocationWatch
    """Not started: until a test does so, nothing is believed without the store."""
    credential_status: CredentialStatus
    authenticate: Authenticate
    put_tenant: PutTenant
    make_key: MakeTenantKey
    revoke_key: RevokeTenantKey
    make_token: MakeToken
    signing_keys: SigningKeyVerbs
    token_issuers: TokenIssuerVerbs
    rotate: RotateKeys


@asynccontextmanager
async def open_small_deployment(
    folder: Path,
    *,
    master: MasterKeys | None = None,
    data_keys: Callable[[DataKeys], Any] | None = None,
) -> AsyncIterator[SmallDeployment]:
    """Open the folder's deployment, its vault started."""
    broke: list[Exception] = []
    async with open_store(folder, failpoints=NoFailpoints(), broken=broke.append) as store:
        master = master or FileKeyring(folder, SystemChance())
        keys = data_keys(store.data_keys) if data_keys else store.data_keys
        clock, chance = ManualClock(), SystemChance()
        vault = Vault(keys, store.deployment, master, chance, clock)
        await vault.start()
        watch = RevocationWatch(store.revocations)
        signing = SigningKeys(store.tenants, vault.wrapping, clock, watch)
        own_keys = TenantIssuerKeys(store.tenants, clock, watch)
        credential_status = CredentialStatus(
            store.tenants, store.users, store.sessions, clock, watch
        )
        maker = SigningKeyMaker(vault.wrapping, chance)
        yield SmallDeployment(
            folder=folder,
            store=store,
            master=master,
            clock=clock,
            vault=vault,
            signing=signing,
            watch=watch,
            credential_status=credential_status,
            authenticate=Authenticate(
                ROOT_KEY, store.tenants, signing, own_keys, credential_status, watch, clock
            ),
            put_tenant=PutTenant(store.tenants, signing, maker, clock),
            make_key=MakeTenantKey(store.tenants, clock, chance),
            revoke_key=RevokeTenantKey(store.tenants, clock),
            make_token=MakeToken(store.users, store.sessions, signing, clock),
            signing_keys=SigningKeyVerbs(store.tenants, signing, maker, clock),
            token_issuers=TokenIssuerVerbs(store.tenants, own_keys, clock),
            rotate=RotateKeys(master, vault.wrapping, keys, store.tenants, store.deployment),
        )
    assert not broke


def sealed_message(sealed: Sealed, author: UserKey = ALICE, cmid: str = "m1") -> Entry:
    """The entry a sealed message would be read back as."""
    return Entry(
        chat_id=CHAT,
        kind="message",
        sender=author,
        sequence=1,
        client_message_id=cmid,
        box=sealed.box,
        box_key=sealed.box_key,
    )


async def write(vault: Vault, content: str, author: UserKey = ALICE, cmid: str = "m1") -> Entry:
    """Seal a message, and give it back without its content."""
    return sealed_message(await vault.seal(author, CHAT, cmid, content), author, cmid)


async def read(vault: Vault, entry: Entry, now: int = NOW) -> str | None:
    """What a reader would see: the content, or why it is gone."""
    fresh = msgspec.structs.replace(entry, content=None, gone=None)
    await vault.open([fresh], now)
    return fresh.content if fresh.gone is None else f"<{fresh.gone}>"


async def let_others_run(world: SmallDeployment) -> None:
    """Give everything that is not waiting for a gate ample time to be done."""
    for _ in range(50):
        await world.store.data_keys.current(user_key("acme", "nobody"))
        await world.store.users.put(BOB, display_name=None, phone_number=None, now=NOW)
