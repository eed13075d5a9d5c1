# SPDX-License-Identifier: Apache-2.0
"""Makes the REST application of a server, and the verbs for identity that only it uses."""

from starlette.routing import Router

from tidings.actions.chat.before_send import GetHookSecret
from tidings.actions.explain.explaining import Explain
from tidings.actions.explain.messages import ExplainMessage
from tidings.actions.explain.notifications import ExplainNotification
from tidings.actions.explain.pushes import FindPushes
from tidings.actions.explain.tracing import Trace
from tidings.actions.identity.audit import ReadAudit
from tidings.actions.identity.bans import BanUser
from tidings.actions.identity.profiles import (
    GetProfile,
    LastSeen,
    ListProfiles,
    Online,
    PatchProfile,
)
from tidings.actions.identity.signing_keys import SigningKeyMaker, SigningKeyVerbs
from tidings.actions.identity.tenants import (
    GetTenant,
    ListTenantKeys,
    ListTenants,
    MakeTenantKey,
    MakeToken,
    PutTenant,
    RevokeTenantKey,
)
from tidings.actions.identity.token_issuers import TokenIssuerVerbs
from tidings.actions.identity.users import (
    EraseUserContent,
    GetUser,
    ListUsers,
    ProfileWriter,
    PutUser,
)
from tidings.actions.inbox.posted import DeadLetterJobs, FindNotification
from tidings.actions.jobs.exports import PersonExports
from tidings.actions.state import StateVerbs
from tidings.api.access import Access
from tidings.api.app import make_app, make_health_app
from tidings.api.callers import IdentityVerbs
from tidings.api.health import Health, load_pages
from tidings.api.sign_in import SignIn
from tidings.api.web_app import load_web_app
from tidings.assembly import Core
from tidings.assembly.metrics import metrics_text, root_only
from tidings.gateway.hub import Hub
from tidings.gateway.presence import OnlineUsers
from tidings.ports.journals import Journals, NoJournals, PushJournals


def make_rest(
    core: Core,
    health: Health,
    identity: IdentityVerbs,
    state: StateVerbs,
    *,
    access: Access | None = None,
    is_whole: bool = True,
    sign_in: SignIn | None = None,
    journals: Journals | None = None,
    pushes: PushJournals | None = None,
) -> Router:
    """Return the REST application; without `is_whole`, it answers only health checks.

    `journals` asks the gateways; None if there are no sockets. `pushes` asks the processes that
    send push notices; None if this process is the only one.
    """
    if not is_whole:
        return make_health_app(health, metrics_text, root_only(core), core.chance)
    return make_app(
        chat_verbs=core.verbs,
        inbox_verbs=core.inbox,
        identity_verbs=identity,
        login_verbs=core.logins,
        job_verbs=core.tenant_work.verbs,
        file_verbs=core.files,
        webhook_verbs=core.webhooks,
        push_verbs=core.push,
        state_verbs=state,
        dead_letters=DeadLetterJobs(core.store.dead_letters, core.jobs),
        exports=PersonExports(core.store, core.vault, core.start_job, core.clock),
        audit_trail=core.audit,
        audit_reading=ReadAudit(core.store.audit, core.store.tenants, core.vault, core.clock),
        explaining=make_explain(core, journals or NoJournals(), pushes),
        own_health=health,
        metrics_text=metrics_text,
        chance=core.chance,
        pages=load_pages(),
        web_app=load_web_app(),
        access=access or Access(),
        ways_to_sign_in=sign_in or SignIn(),
    )


def make_explain(core: Core, journals: Journals, pushes: PushJournals | None = None) -> Explain:
    """Return the verb that explains what became of a message; `pushes` is as in `make_rest`."""
    store, push = core.store, core.push
    find_pushes = FindPushes(pushes or push.send.journal, push.directory, push.has_operator)
    message = ExplainMessage(
        store.log,
        store.chats,
        store.receipts,
        core.deliveries,
        core.vault,
        journals,
        find_pushes,
        core.clock,
        core.blocks,
    )
    find = FindNotification(core.inbox.configs, store.notifications, core.clock)
    notification = ExplainNotification(
        store.inbox_settings,
        find,
        store.notifications,
        store.copies,
        store.dead_letters,
        core.inbox.views,
        core.inbox.unread,
        journals,
        find_pushes,
        core.clock,
    )
    trace = Trace(
        store.tenants,
        store.users,
        store.log,
        journals,
        core.refusals,
        core.vault.cursors,
        core.clock,
    )
    return Explain(store.tenants, store.users, message, notification, core.refusals, trace)


def make_identity_verbs(core: Core, online: Online | None = None) -> IdentityVerbs:
    """Return the verbs for tenants, their keys and their users.

    `online` finds connected users; None if there are no sockets.
    """
    tenants, users = core.store.tenants, core.store.users
    writer = ProfileWriter(users, core.profiles.forget, core.bus, core.clock)
    online = online or OnlineUsers(Hub(), None)
    last_seen = LastSeen(core.profiles, online, core.clock, core.blocks)
    signing, clock, chance = core.signing, core.clock, core.chance
    maker, cursors = SigningKeyMaker(core.vault.wrapping, chance), core.vault.cursors
    return IdentityVerbs(
        authenticate=core.authenticate,
        bans=core.bans,
        put_tenant=PutTenant(tenants, signing, maker, clock),
        get_tenant=GetTenant(tenants),
        quotas=core.quotas,
        list_tenants=ListTenants(tenants, cursors),
        list_tenant_keys=ListTenantKeys(tenants, cursors),
        make_tenant_key=MakeTenantKey(tenants, clock, chance),
        revoke_tenant_key=RevokeTenantKey(tenants, clock),
        put_user=PutUser(
            tenants,
            writer,
            BanUser(users, core.bans, core.clock),
            core.tenant_events,
            core.quotas,
        ),
        list_users=ListUsers(tenants, users, cursors),
        get_user=GetUser(tenants, users),
        make_token=MakeToken(users, core.store.sessions, signing, clock, core.quotas),
        signing_keys=SigningKeyVerbs(tenants, signing, maker, clock),
        token_issuers=TokenIssuerVerbs(tenants, core.own_keys, clock),
        get_profile=GetProfile(users, last_seen),
        list_profiles=ListProfiles(users, last_seen),
        patch_profile=PatchProfile(users, writer, last_seen),
        last_seen=last_seen,
        erase_user_content=EraseUserContent(
            users, core.vault, core.erasures, core.store.uploads, core.store.push, clock
        ),
        rotate_keys=core.rotate_keys,
        hook_secret=GetHookSecret(tenants, core.vault.digest),
    )
