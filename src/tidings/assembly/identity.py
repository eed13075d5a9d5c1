# SPDX-License-Identifier: Apache-2.0
"""What tells who calls, wired: keys, standing, and the watch on what ended."""

from dataclasses import dataclass

from tidings.actions.authenticating import Authenticate
from tidings.actions.own_keys import OwnKeys
from tidings.actions.quotas import TenantQuotas
from tidings.actions.revocation_watch import RevocationWatch
from tidings.actions.signing_keys import SigningKeys
from tidings.actions.standing import Standings
from tidings.actions.wrapping import Wrapping
from tidings.ports.store import Store
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class Identity:
    """Parts that remember something of the store, and hear of it together when that ends."""

    watch: RevocationWatch
    signing: SigningKeys
    own_keys: OwnKeys
    standings: Standings
    authenticate: Authenticate


def make_identity(
    root_key: str, store: Store, wrapping: Wrapping, quotas: TenantQuotas, clock: Clock
) -> Identity:
    """All of it, with a watch that is not started."""
    watch = RevocationWatch(store.revocations)
    signing = SigningKeys(store.tenants, wrapping, clock, watch)
    own_keys = OwnKeys(store.tenants, clock, watch)
    standings = Standings(store.tenants, store.users, store.sessions, clock, watch, quotas)
    authenticate = Authenticate(root_key, store.tenants, signing, own_keys, standings, watch, clock)
    return Identity(watch, signing, own_keys, standings, authenticate)
