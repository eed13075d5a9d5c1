# SPDX-License-Identifier: Apache-2.0
"""The use cases of identity whose cost is measured: where tenant and keys are known."""

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts import cost_page as cases
from tests.contract.cost_cases import Bill, Ground, a_ground
from tests.contract.identity_builders import a_session
from tests.contract.metering import Process, person
from tests.contract.push_cost_cases import without_content
from tests.contract.tenant_cost_cases import acts_of_tenants
from tests.support.clock import ManualClock
from tests.support.phones import PHONE_LOGIN
from tidings.actions.identity.audit import Intent, ReadAudit
from tidings.actions.identity.caller import Root, UserCaller
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.actions.identity.sessions import TokenPair
from tidings.actions.identity.signing_keys import SigningKeyMaker
from tidings.actions.identity.tenants import MakeToken, PutTenant
from tidings.actions.jobs import user_deletion
from tidings.actions.state import ListConnections
from tidings.assembly.system import wait_patiently
from tidings.delivery.rounds import TenantJobRunner
from tidings.model.ids import UserKey, user_id
from tidings.model.limits import DAY_MS
from tidings.ports.processes import ConnectionState

TENANT = "acme"
DEVICE = "phone"

Act = Callable[[Process], Awaitable[object]]

_numbers = itertools.count(1_000_000)


class Phone:
    """A phone that shows the last code that was sent to it."""

    def __init__(self) -> None:
        drawn = next(_numbers)
        self.number, self.address = f"+49170{drawn}", f"203.0.113.{drawn % 256}"
        self._text = ""

    async def send(self, phone_number: str, text: str) -> None:
        assert phone_number == self.number
        self._text = text

    async def ask(self, process: Process) -> None:
        request = process.core.logins.request_code
        own = replace(request, send=replace(request.send, sms=self))
        await own(TENANT, self.number, self.address)

    async def ask_and_wait(self, process: Process) -> None:
        await self.ask(process)
        await process.core.logins.request_code.queue.settled()

    async def log_in(self, process: Process) -> TokenPair:
        code = self._text.split()[0]
        open_session = process.core.logins.open_session
        return await open_session(TENANT, self.number, code, DEVICE, self.address)

    async def session(self, process: Process) -> TokenPair:
        """A session of its own."""
        await self.ask_and_wait(process)
        return await self.log_in(process)


@asynccontextmanager
async def warm(ground: Ground) -> AsyncIterator[Process]:
    """A process in which somebody has just logged in and been seen, some time later."""
    async with ground.process() as process:
        pair = await Phone().session(process)
        await process.core.authenticate(pair.access_token)
        await process.store.users.close()
        pass_time(process)
        yield process


def pass_time(process: Process) -> None:
    clock = process.core.clock
    assert isinstance(clock, ManualClock)
    clock.time += 1_001


async def step(ground: Ground, name: str, act: Act, before: Act | None = None) -> None:
    """One step, and what follows from it."""
    async with warm(ground) as process:
        if before is not None:
            await before(process)
        ground.start(process)
        await act(process)
        answer = process.meter.reading()
    ground.keep(name, answer, process)


async def identity_bills(endpoint: str, folder: Path) -> dict[str, Bill]:
    """Every use case, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        # What the feed tells is a case of its own, and comes when that says so.
        always = property(lambda _: math.inf, lambda _watch, _until: None)
        patch.setattr(RevocationWatch, "sees_until", always, raising=False)
        # A busy machine needs longer, and the step would be repeated.
        patch.setattr(user_deletion, "ERASE_SECONDS", 60)
        async with a_ground(endpoint, folder) as ground:
            await make_tenant(ground.home)
            await logins(ground)
            await tokens(ground)
            await acts(ground)
            await numbers(ground)
            await lists(ground)
            await ends(ground)
            await of_tenants(ground)
            await deletion(ground)
            return ground.bills


async def make_tenant(home: Process) -> None:
    core = home.core
    maker = SigningKeyMaker(core.vault.wrapping, core.chance)
    await PutTenant(core.store.tenants, core.signing, maker, core.clock)(Root(), TENANT, None)
    await core.inbox.settings.put(TENANT, {**PHONE_LOGIN})


async def logins(ground: Ground) -> None:
    phone, known = Phone(), Phone()
    await give(ground.home, person(next(_numbers)), known.number)
    await step(ground, cases.ASK, known.ask)
    await step(ground, cases.FIRST_LOGIN, phone.log_in, phone.ask_and_wait)

    async def ask_later(process: Process) -> None:
        pass_time(process)
        await phone.ask_and_wait(process)

    await step(ground, cases.NEXT_LOGIN, phone.log_in, ask_later)


async def tokens(ground: Ground) -> None:
    pair = await Phone().session(ground.home)
    await step(ground, cases.REFRESH, lambda p: p.core.logins.refresh(pair.refresh_token))
    await step(ground, cases.FIRST_SIGHT, lambda p: p.core.authenticate(pair.access_token))
    await step(ground, cases.LOOK, lambda p: p.core.watch.look(), lambda p: p.core.watch.look())


async def acts(ground: Ground) -> None:
    user = person(next(_numbers))
    await ground.home.store.users.put(user, display_name=None, phone_number=None, now=1)
    intent = Intent("tenant_key", "0" * 16, "make_token", TENANT, ("user_id",))
    about = {"target": user_id(user), "request_id": "0" * 16}

    async def make_token(process: Process) -> None:
        core = process.core
        make = MakeToken(core.store.users, core.store.sessions, core.signing, core.clock)
        await make(Root(), TENANT, user_id(user))
        await core.audit.add(intent, "done", **about)

    async def record(process: Process) -> None:
        async with process.core.audit.act(intent, **about):
            pass

    await step(ground, cases.MAKE_TOKEN, make_token)

    async def look(process: Process) -> None:
        page, _ = await read_audit(process).of_tenant(Root(), TENANT, None, cases.ACTS)
        assert len(page) == cases.ACTS

    async def connections(process: Process) -> None:
        find = ListConnections(process.store.tenants, process.store.users, Nobody())
        assert await find(Root(), TENANT, user_id(user)) == ([], True)

    await step(ground, cases.RECORD_ACT, record)
    async with asyncio.TaskGroup() as group:
        for _ in range(cases.ACTS + 2):
            group.create_task(record(ground.home))
    await step(ground, cases.LIST_ACTS, look)
    await step(ground, cases.CONNECTIONS, connections)


class Nobody:
    """No connections."""

    async def of(self, user: UserKey) -> tuple[list[ConnectionState], bool]:
        return [], True


def read_audit(process: Process) -> ReadAudit:
    core = process.core
    return ReadAudit(core.store.audit, core.store.tenants, core.vault, core.clock)


async def numbers(ground: Ground) -> None:
    home, user = ground.home, person(next(_numbers))
    await home.store.users.put(user, display_name=None, phone_number=None, now=1)
    for name in (cases.FIRST_NUMBER, cases.NEXT_NUMBER):
        await step(ground, name, lambda p: give(p, user, Phone().number))
    known = [Phone().number for _ in range(cases.CONTACTS)]
    for number in known:
        await give(home, person(next(_numbers)), number)
    await step(
        ground,
        cases.FIND_CONTACTS,
        lambda p: p.core.logins.find_contacts(caller(user), known),
    )


async def lists(ground: Ground) -> None:
    async def make(process: Process) -> None:
        user = person(next(_numbers))
        await process.store.users.put(user, display_name=None, phone_number=None, now=1)

    async def look(process: Process) -> None:
        page = await process.store.users.by_id(TENANT, prefix="", after=None, limit=cases.USERS)
        assert len(page.rows) == cases.USERS

    async def profiles(process: Process) -> None:
        assert len(await process.core.profiles.of(shown)) == cases.USERS

    async def leave(process: Process) -> None:
        process.store.users.seen({shown[0]: 1})

    await step(ground, cases.NEW_USER, make)
    await step(ground, cases.LIST_USERS, look)
    listed = await ground.home.store.users.by_id(TENANT, prefix="", after=None, limit=cases.USERS)
    shown = [row.user for row in listed.rows]
    await step(ground, cases.PROFILES, profiles)
    await step(ground, cases.DISCONNECT, leave)


async def give(process: Process, user: UserKey, number: str) -> None:
    await process.store.users.put(user, display_name=None, phone_number=number, now=2)


def caller(user: UserKey) -> UserCaller:
    return UserCaller(user=user, device=None, expires_at=0)


async def ends(ground: Ground) -> None:
    session = (await Phone().session(ground.home)).session
    me, named = caller(session.user), session.session_id
    await step(ground, cases.END_SESSION, lambda p: p.core.logins.revoke_session(me, named))
    await step(ground, cases.END_ALL, lambda p: p.core.logins.revoke_sessions.own(me))
    blocker, blocked = person(next(_numbers)), person(next(_numbers))
    await ground.home.store.users.put(blocked, display_name=None, phone_number=None, now=1)
    await step(ground, cases.BLOCK, lambda p: p.core.verbs.block(blocker, blocked))
    await registrations(ground)
    author = person(next(_numbers))
    await ground.home.core.vault.seal_text(author, "", "text")

    async def erase(process: Process) -> None:
        # Between the steps, an erasure waits until no process has the key in its cache.
        generation = await process.store.data_keys.end(author, 1)
        assert generation is not None
        await process.store.data_keys.destroy(author, generation, 2)

    async def missed(process: Process) -> None:
        assert len(await process.store.revocations.erasures(TENANT, 0, 100)) == 1

    await step(ground, cases.ERASE, erase)
    await step(ground, cases.MISSED_ERASURES, missed)


async def registrations(ground: Ground) -> None:
    """A device that was not registered, and then the same again when its app starts."""
    me = replace(caller(person(next(_numbers))), session=f"session {next(_numbers)}")
    phone = {"provider": "fcm", "token": f"token-{next(_numbers)}", "app": "news"}

    async def register(process: Process) -> None:
        push = process.core.push
        push.directory.tenant = without_content  # type: ignore[method-assign, assignment]
        await push.register(me, DEVICE, phone)

    await step(ground, cases.REGISTER_PUSH, register)
    await step(ground, cases.REGISTER_AGAIN, register)


async def of_tenants(ground: Ground) -> None:
    users = [person(next(_numbers)) for _ in range(cases.FEW)]
    for user in users:
        await ground.home.store.users.put(user, display_name=None, phone_number=None, now=1)
    await acts_of_tenants(ground, step, users)


async def deletion(ground: Ground) -> None:
    """A user with one thing of each kind; then the steps of the job, one after the other."""
    home, (chat, members) = ground.home, await ground.chat(cases.FEW)
    user, now = members[1], home.core.clock.now()
    await home.store.users.put(user, display_name=None, phone_number=None, now=now)
    await home.core.vault.seal_text(user, "", "text")
    await home.store.sessions.open(a_session(user, created_at=now, expires_at=now + DAY_MS))
    async with warm(ground) as process:
        work, store = process.core.tenant_work, process.store
        await process.warm_up(members[0], chat)
        runner = TenantJobRunner(
            jobs=store.tenant_jobs,
            kinds=work.kinds,
            clock=process.core.clock,
            holder="one",
            back_off=wait_patiently,
        )
        await work.verbs.receipts.published()
        ground.start(process)
        job = await work.verbs.delete_user(Root(), TENANT, user_id(user))
        answer = process.meter.reading()
        while job.state != "done":
            await runner.round()
            pass_time(process)
            found = await home.store.tenant_jobs.get(TENANT, job.job_id)
            assert found is not None
            job = found
        assert job.counts == {"sessions": 1, "keys": 1, "groups_left": 1}
    ground.keep(cases.DELETE_USER, answer, process)
