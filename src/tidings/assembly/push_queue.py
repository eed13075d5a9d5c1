# SPDX-License-Identifier: Apache-2.0
"""Runs the queue of push notices, in the one process of a server or in a delivery worker."""

from contextlib import AsyncExitStack

from tidings.actions.push.inbox_notices import PushToEveryone
from tidings.actions.push.noticing import MakeNotice
from tidings.assembly.core import Core
from tidings.assembly.system import wait_patiently
from tidings.config import Config, Webhook
from tidings.delivery.inbox_push import InboxPush
from tidings.delivery.operator_push import OperatorPush
from tidings.delivery.push_clearing import PushClearing
from tidings.delivery.push_notices import Everybody, OwnArrivals, PushOffers
from tidings.delivery.push_queue import PushQueue
from tidings.delivery.push_replay import PushReplay
from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import Push
from tidings.ports.push import LookingDevices
from tidings.wire.events import secrets_of


class NoDevices:
    """The devices of a process without connections."""

    def is_looking(self, user: UserKey) -> bool:
        return False

    def is_away(self, user: UserKey) -> bool:
        return False

    async def taken_up_to(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        return 0


def make_notices(core: Core) -> MakeNotice:
    """Make the verb that decides about notices of messages, and claims them."""
    return MakeNotice(
        core.store.log,
        core.store.push_claims,
        core.vault,
        core.blocks,
        core.profiles,
        core.push.preferences,
        core.push.directory,
        core.push.badges,
        core.push.send.journal,
        core.clock,
    )


def open_offers(
    config: Config, core: Core, looking: LookingDevices, stack: AsyncExitStack
) -> PushOffers:
    """Start a queue, and return the object that offers messages to it; `stack` closes both."""
    service = _operator_service(config, core, stack)
    make, journal = make_notices(core), core.push.send.journal
    operator = OperatorPush(core.push.send, service, make.is_wanted)
    stack.push_async_callback(operator.close)
    queue = PushQueue(make, operator.send, looking, journal)
    queue.start()
    stack.push_async_callback(queue.close)
    reach = core.push.send if service is None else Everybody()
    return PushOffers(queue, reach, core.blocks, looking, journal)


def run_own_push(
    config: Config, core: Core, looking: LookingDevices, stack: AsyncExitStack
) -> None:
    """Notify users of the messages that this process appends; it has all connections."""
    offers = open_offers(config, core, looking, stack)
    arrivals = OwnArrivals(offers, core.bus, core.clock)
    arrivals.start()
    stack.push_async_callback(arrivals.close)
    replay = PushReplay(
        offers,
        core.store.recent_chats,
        core.store.log,
        core.clock,
        wait_patiently,
        of_everybody=core.push.has_operator,
    )
    replay.start()
    stack.push_async_callback(replay.close)


def make_push_to_everyone(core: Core) -> PushToEveryone:
    """Make the steps of the job that notifies everybody of a broadcast."""
    return PushToEveryone(core.store.push, core.push.notify_inbox, core.clock)


def run_inbox_push(core: Core, stack: AsyncExitStack) -> InboxPush:
    """Notify users of the notifications that this process delivers to them."""
    push = InboxPush(core.push.notify_inbox)
    push.start()
    stack.push_async_callback(push.close)
    return push


def run_own_events(core: Core, stack: AsyncExitStack) -> None:
    """Remove notices whose messages were read in this process."""
    clearing = PushClearing(core.store.push_claims, core.push.send, core.push.badges, core.bus)
    clearing.start()
    stack.push_async_callback(clearing.close)


def _operator_service(config: Config, core: Core, stack: AsyncExitStack) -> Push | None:
    ended = core.push.send.journal.by_operator
    if config.push == "log":
        from tidings.phones.log import LogPush

        return LogPush(ended)
    if isinstance(config.push, Webhook):
        from tidings.phones.push_webhook import WebhookPush

        push = WebhookPush(
            url=config.push.url,
            secrets=secrets_of(config.push.secret, config.push.secret_previous),
            clock=core.clock,
            back_off=wait_patiently,
            ended=ended,
        )
        push.start()
        stack.push_async_callback(push.close)
        return push
    return None
