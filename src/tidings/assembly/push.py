# SPDX-License-Identifier: Apache-2.0
"""Makes the verbs for push, and loads the providers when they are needed."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Final

from tidings.actions.push.directory import PushDirectory, PushSeal
from tidings.actions.push.inbox_notices import NotifyInbox
from tidings.actions.push.journal import PushJournal
from tidings.actions.push.noticing import Badges
from tidings.actions.push.quiet_hours import QuietHoursOfUsers
from tidings.actions.push.registering import RegisterDevice, ShowPush
from tidings.actions.push.sending import SendPush
from tidings.actions.push.settings import TenantPushSettings
from tidings.actions.push.verbs import PushVerbs, TestPush
from tidings.actions.verbs import InboxVerbs
from tidings.assembly.foundation import Foundation
from tidings.assembly.system import wait_patiently
from tidings.config.settings import Config, PushServices
from tidings.model.addresses import Networks
from tidings.model.ids import UserKey
from tidings.model.unread_totals import UnreadTotal
from tidings.outgoing.push.loading import LazyPosts
from tidings.ports.outgoing import SignedPosts
from tidings.ports.push import PushProvider, PushProviders
from tidings.ports.world import Chance, Clock

_PACKAGE: Final = "tidings.outgoing.push"


class LazyProviders:
    """Loads the code of a provider with the first notice or setting for it.

    Most servers need none of them, and would start later with their HTTP clients.
    """

    def __init__(
        self,
        posts: SignedPosts,
        allowed: Networks,
        places: PushServices,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._made: dict[str, PushProvider] = {}
        self._services = LazyPosts(allowed)
        services = self._services
        self._makers: dict[str, tuple[str, Callable[[], PushProvider]]] = {
            "webhook": (f"{_PACKAGE}.webhook", lambda: _webhook(posts, clock, chance)),
            "webpush": (f"{_PACKAGE}.web_push", lambda: _web(services, clock, chance, allowed)),
            "fcm": (f"{_PACKAGE}.fcm", lambda: _fcm(services, places, clock)),
            "apns": (f"{_PACKAGE}.apns", lambda: _apns(places, clock, allowed)),
        }
        """For each provider, its module, and the function that makes it once the module is
        loaded."""

    async def get(self, name: str) -> PushProvider | None:
        if name not in self._made and name in self._makers:
            module, make = self._makers[name]
            await asyncio.to_thread(import_module, module)  # too long for the event loop
            self._made.setdefault(name, make())
        return self._made.get(name)

    async def close(self) -> None:
        await self._services.close()
        for provider in self._made.values():
            if (close := getattr(provider, "close", None)) is not None:
                await close()

    def replace(self, provider: PushProvider) -> None:
        """Use this provider from now on, for example that of a test."""
        self._made[provider.name] = provider


def _webhook(posts: SignedPosts, clock: Clock, chance: Chance) -> PushProvider:
    from tidings.outgoing.push.webhook import WebhookPushProvider

    return WebhookPushProvider(posts, clock, chance)


def _web(posts: LazyPosts, clock: Clock, chance: Chance, allowed: Networks) -> PushProvider:
    from tidings.outgoing.push.web_push import WebPushProvider

    return WebPushProvider(posts, clock, chance, allowed)


def _fcm(posts: LazyPosts, places: PushServices, clock: Clock) -> PushProvider:
    from tidings.outgoing.push.fcm import FCM_URL, FcmProvider
    from tidings.outgoing.push.fcm_tokens import FCM_TOKEN_URL

    return FcmProvider(
        posts,
        clock,
        url=places.fcm_url or FCM_URL,
        token_url=places.fcm_token_url or FCM_TOKEN_URL,
    )


def _apns(places: PushServices, clock: Clock, allowed: Networks) -> PushProvider:
    from tidings.outgoing.push.apns import APNS_SANDBOX_URL, APNS_URL, ApnsProvider

    return ApnsProvider(
        clock,
        allowed,
        url=places.apns_url or APNS_URL,
        sandbox_url=places.apns_sandbox_url or APNS_SANDBOX_URL,
    )


def make_push_verbs(
    base: Foundation,
    directory: PushDirectory,
    config: Config,
    inbox: InboxVerbs,
    count_total: Callable[[UserKey], Awaitable[UnreadTotal]],
) -> PushVerbs:
    """Make the verbs for push; `count_total` counts everything that a user has not read."""
    badges = Badges(count_total, base.clock)
    store, clock = base.store, base.clock
    seal = PushSeal(base.vault.cursors)
    allowed, places = config.network.outgoing_allow, config.push_services
    providers = LazyProviders(base.posts, allowed, places, clock, base.chance)
    journal, sessions = PushJournal(clock), store.sessions
    send = SendPush(
        store.push, directory, providers, seal, sessions, clock, wait_patiently, journal
    )
    return PushVerbs(
        directory=directory,
        register=RegisterDevice(store.push, directory, providers, seal, sessions, clock),
        show=ShowPush(directory, providers),
        settings=TenantPushSettings(store.tenants, store.push, directory, providers, seal, clock),
        send=send,
        test=TestPush(store.tenants, store.users, send),
        preferences=QuietHoursOfUsers(store.inbox_settings, store.preferences, clock),
        badges=badges,
        notify_inbox=NotifyInbox(send, inbox.reachable, inbox.showing, inbox.views, badges, clock),
        has_operator=config.push != "off",
    )


_conforms: type[PushProviders] = LazyProviders
