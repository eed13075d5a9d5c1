# SPDX-License-Identifier: Apache-2.0
"""Opens the sender of text messages, and makes the verbs for login by phone."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec

from tidings.actions.identity.code_sending import LoginTenants, ProviderHealth, SendCode
from tidings.actions.identity.logins import RedeemCode, RequestCode
from tidings.actions.identity.phone_numbers import LoginBudgets
from tidings.actions.identity.profiles import FindContacts
from tidings.actions.identity.refreshing import RefreshSession
from tidings.actions.identity.sessions import (
    ListDevices,
    ListSessions,
    OpenSession,
    RevokeSession,
    RevokeSessions,
)
from tidings.actions.identity.signing_keys import SigningKeys
from tidings.actions.verbs import LoginVerbs
from tidings.assembly.foundation import Foundation
from tidings.config import Config, Sns, Webhook
from tidings.model import limits
from tidings.model.setup_error import optional_import
from tidings.phones.log import LogSms
from tidings.ports.delivery import Sms
from tidings.ports.world import Clock
from tidings.tasks import BackgroundQueue
from tidings.wire.events import secrets_of


@asynccontextmanager
async def open_sms(config: Config, clock: Clock) -> AsyncIterator[Sms | None]:
    """Open the sender of text messages; return None if none is configured, or if this process needs
    none.

    Raises:
        SetupError: A library or credentials are missing.
    """
    match config.sms if "api" in config.process.roles else "off":
        case Webhook() as webhook:
            async with _webhook(webhook, clock) as sms:
                yield sms
        case Sns() as sns:
            async with _sns(sns, clock) as sms:
                yield sms
        case "log":
            yield LogSms()
        case "off":
            yield None


@asynccontextmanager
async def _webhook(webhook: Webhook, clock: Clock) -> AsyncIterator[Sms]:
    # Imported here, because the libraries are not needed without text messages.
    with optional_import():
        from tidings.phones.sms import WebhookSms

    async with aclosing(
        WebhookSms(
            url=webhook.url,
            secrets=secrets_of(webhook.secret, webhook.secret_previous),
            clock=clock,
        )
    ) as sms:
        yield sms


@asynccontextmanager
async def _sns(sns: Sns, clock: Clock) -> AsyncIterator[Sms]:
    with optional_import():
        from tidings.phones.sms import open_sns

    async with open_sns(
        endpoint=sns.endpoint,
        region=sns.region,
        sender=sns.sender,
        clock=clock,
    ) as sms:
        yield sms


class SmsSending(msgspec.Struct, frozen=True):
    """The sender of text messages, and the queue of codes that wait for it."""

    sms: Sms | None
    queue: BackgroundQueue


@asynccontextmanager
async def open_texts(config: Config, clock: Clock) -> AsyncIterator[SmsSending]:
    """Open the sender and its queue. On exit, waiting codes are sent, for a limited time.

    Raises:
        SetupError: A library or credentials are missing.
    """
    queue = BackgroundQueue(
        "login codes",
        workers=limits.CODE_SENDERS,
        waiting_max=limits.CODES_WAITING_MAX,
        close_seconds=limits.CODES_CLOSE_SECONDS,
    )
    async with open_sms(config, clock) as sms:
        try:
            yield SmsSending(sms, queue)
        finally:
            await queue.close()


def make_login_verbs(
    base: Foundation, signing: SigningKeys, texts: SmsSending, sms_per_day: int
) -> LoginVerbs:
    """Return the login verbs."""
    store, quotas, clock, chance = base.store, base.quotas, base.clock, base.chance
    tenants, users, sessions, codes = store.tenants, store.users, store.sessions, store.login_codes
    digests, events = base.vault.login_digests, base.tenant_events
    budgets = LoginBudgets(store.budgets, digests, sms_per_day)
    login_tenants = LoginTenants(tenants, store.inbox_settings)
    health = ProviderHealth()
    send = SendCode(texts.sms, login_tenants, users, codes, budgets, digests, health, clock, chance)
    redeem = RedeemCode(texts.sms is not None, login_tenants, codes, budgets, digests, clock)
    return LoginVerbs(
        request_code=RequestCode(send, texts.queue, budgets, clock),
        open_session=OpenSession(
            redeem, users, sessions, signing, digests, clock, chance, quotas, events
        ),
        refresh=RefreshSession(tenants, sessions, signing, digests, clock, chance, events),
        sessions=ListSessions(sessions, clock),
        devices=ListDevices(ListSessions(sessions, clock), store.push, base.vault.cursors),
        revoke_session=RevokeSession(sessions, events, clock),
        revoke_sessions=RevokeSessions(users, events, clock),
        find_contacts=FindContacts(users, store.budgets, clock),
    )
