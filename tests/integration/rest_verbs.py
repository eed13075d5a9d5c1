# SPDX-License-Identifier: Apache-2.0
"""The verbs over a store, put together for the REST tests."""

from tidings.actions.appending import Appender
from tidings.actions.chats import CreateChat, GetChat, ListChats, Mute
from tidings.actions.identity import Authenticate
from tidings.actions.membership import PutMember, RemoveMember, Rename
from tidings.actions.messages import Edit, React, Redact
from tidings.actions.posting import Post
from tidings.actions.reading import ListMembers, ListReactions, ListReceipts, OpenReplay, ReadPage
from tidings.actions.receipts import MarkReceipt
from tidings.actions.rotate_keys import RotateKeys
from tidings.actions.tenants import MakeTenantKey, MakeToken, PutTenant, RevokeTenantKey
from tidings.actions.tokens import SigningKeys
from tidings.actions.users import EraseUserContent, GetProfile, PatchProfile, PutUser
from tidings.actions.vault import Vault
from tidings.actions.verbs import ChatVerbs
from tidings.api.callers import IdentityVerbs
from tidings.ports.bus import Bus
from tidings.ports.secrets import MasterKeys
from tidings.ports.world import Chance, Clock
from tidings.stores.sqlite.store import SqliteStore


def chat_verbs(
    store: SqliteStore, vault: Vault, appender: Appender, bus: Bus, clock: Clock, chance: Chance
) -> ChatVerbs:
    """What users can do with chats."""
    log, chats, users = store.log, store.chats, store.users
    return ChatVerbs(
        create=CreateChat(chats, users, vault, bus, clock, chance),
        list=ListChats(chats, vault, vault.cursors, clock),
        get=GetChat(chats, vault, clock),
        mute=Mute(chats),
        put_member=PutMember(appender, users),
        remove_member=RemoveMember(appender),
        rename=Rename(appender),
        members=ListMembers(chats),
        post=Post(appender, vault, clock),
        open_replay=OpenReplay(vault, clock),
        read=ReadPage(log, vault, clock),
        edit=Edit(appender, log, vault, clock),
        redact=Redact(appender, log),
        react=React(appender, log),
        reactions=ListReactions(log),
        receipts=ListReceipts(store.receipts),
        mark=MarkReceipt(store.receipts, bus, clock),
    )


def identity_verbs(
    root_key: str,
    store: SqliteStore,
    vault: Vault,
    master: MasterKeys,
    clock: Clock,
    chance: Chance,
) -> IdentityVerbs:
    """What concerns tenants and their users."""
    tenants, users, wrapping = store.tenants, store.users, vault.wrapping
    signing = SigningKeys(tenants, wrapping, clock)
    return IdentityVerbs(
        authenticate=Authenticate(root_key, tenants, signing, clock),
        put_tenant=PutTenant(tenants, signing, wrapping, clock, chance),
        make_tenant_key=MakeTenantKey(tenants, clock, chance),
        revoke_tenant_key=RevokeTenantKey(tenants, clock),
        put_user=PutUser(tenants, users, clock),
        make_token=MakeToken(users, signing, clock),
        get_profile=GetProfile(users),
        patch_profile=PatchProfile(users, clock),
        erase_user_content=EraseUserContent(users, vault),
        rotate_keys=RotateKeys(master, wrapping, store.data_keys, tenants, store.deployment),
    )
