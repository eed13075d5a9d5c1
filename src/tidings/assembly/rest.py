# SPDX-License-Identifier: Apache-2.0
"""Makes the REST application over a core."""

from starlette.routing import Router

from tidings.actions.identity.audit import ReadAudit
from tidings.actions.identity.signing_keys import SigningKeyMaker, SigningKeyVerbs
from tidings.actions.identity.tenants import (
    GetTenant,
    MakeTenantKey,
    MakeToken,
    PutTenant,
    RevokeTenantKey,
)
from tidings.actions.identity.token_issuers import TokenIssuerVerbs
from tidings.actions.identity.users import EraseUserContent, GetProfile, PatchProfile, PutUser
from tidings.actions.inbox.dead_letters import DeadLetterJobs
from tidings.api.access import Access
from tidings.api.app import make_app, make_health_app
from tidings.api.callers import IdentityVerbs
from tidings.api.health import Health, load_pages
from tidings.assembly import Core


def make_rest(
    core: Core, health: Health, *, access: Access | None = None, is_whole: bool = True
) -> Router:
    """Return the application with all routes and pages; without `is_whole`, with its health
    only."""
    if not is_whole:
        return make_health_app(health, core.chance)
    return make_app(
        chat_verbs=core.verbs,
        inbox_verbs=core.inbox,
        identity_verbs=_identity(core),
        login_verbs=core.logins,
        jobs_aside=DeadLetterJobs(core.store.jobs_aside, core.jobs),
        audit_trail=core.audit,
        audit_reading=ReadAudit(core.store.audit, core.store.tenants, core.vault, core.clock),
        own_health=health,
        chance=core.chance,
        pages=load_pages(),
        access=access or Access(),
    )


def _identity(core: Core) -> IdentityVerbs:
    tenants, users = core.store.tenants, core.store.users
    signing, clock, chance = core.signing, core.clock, core.chance
    maker = SigningKeyMaker(core.vault.wrapping, chance)
    return IdentityVerbs(
        authenticate=core.authenticate,
        put_tenant=PutTenant(tenants, signing, maker, clock),
        get_tenant=GetTenant(tenants),
        make_tenant_key=MakeTenantKey(tenants, clock, chance),
        revoke_tenant_key=RevokeTenantKey(tenants, clock),
        put_user=PutUser(tenants, users, clock, core.quotas),
        make_token=MakeToken(users, core.store.sessions, signing, clock, core.quotas),
        signing_keys=SigningKeyVerbs(tenants, signing, maker, clock),
        token_issuers=TokenIssuerVerbs(tenants, core.own_keys, clock),
        get_profile=GetProfile(users),
        patch_profile=PatchProfile(users, clock),
        erase_user_content=EraseUserContent(users, core.vault, clock),
        rotate_keys=core.rotate_keys,
    )
