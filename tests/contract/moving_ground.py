# SPDX-License-Identifier: Apache-2.0
"""For the suites about moving: places to move from and to, and a deployment with all there is."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from tests.contract.builders import (
    a_chat,
    a_push_device,
    a_report,
    added,
    an_endpoint,
    append,
    append_many,
    draft,
    edited,
    key,
    mention,
    message,
    new_chat_id,
    pinned,
    posted,
    reacted,
    redacted,
    removed,
    renamed,
    reply,
    request,
    role,
    settings,
    unpinned,
)
from tests.contract.engines import DynamoEngine, SqliteEngine, Store
from tests.support.clock import NOW
from tests.support.dynamo_tables import REGION
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tidings.actions.export.exporting import VERSION, Tally, encode, export_all
from tidings.actions.export.importing import Imported, import_all
from tidings.assembly.system import SystemChance, SystemClock, wait_patiently
from tidings.model.blocks import Block
from tidings.model.chats import ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, tenant_itself
from tidings.model.limits import DAY_MS
from tidings.model.push import PushSettings
from tidings.model.roles import Invite
from tidings.ports.export_engines import ExportProgress, Source, Target
from tidings.ports.export_facts import ExportStart, Fact, Written
from tidings.ports.log import Kept
from tidings.ports.people import SigningKey, Tenant, TenantKey
from tidings.ports.secrets import WrappedKey
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.export import exporting as tables_out
from tidings.stores.dynamodb.export import importing as tables_in
from tidings.stores.dynamodb.export.exporting import CHATS_AT_ONCE, PAGE_ENTRIES
from tidings.stores.dynamodb.export.scanning import open_patient, whole_table
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.tables import TABLES
from tidings.stores.sqlite.export import exporting as folder_out
from tidings.stores.sqlite.export import importing as folder_in

LATER: Final = NOW + DAY_MS
"""When exports are made: some things have expired by then."""


class Place(Protocol):
    """An engine that can be served from, exported and imported into."""

    def open(self) -> AbstractAsyncContextManager[Store]: ...
    def source(self) -> AbstractAsyncContextManager[Source]: ...
    def target(self) -> AbstractAsyncContextManager[Target]: ...


class FolderPlace(SqliteEngine):
    """The embedded store in a folder."""

    def source(self) -> AbstractAsyncContextManager[Source]:
        return folder_out.open_source(self.folder)

    def target(self) -> AbstractAsyncContextManager[Target]:
        return folder_in.open_target(self.folder)


class TablesPlace(DynamoEngine):
    """The store for scale on tables that somebody has made."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        super().__init__(endpoint, prefix)
        self.endpoint, self.prefix = endpoint, prefix

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Dynamo]:
        """A client of the tables, as patient as that of a command."""
        async with open_patient(
            endpoint=self.endpoint,
            region=REGION,
            prefix=self.prefix,
            clock=SystemClock(),
            chance=SystemChance(),
            back_off=wait_patiently,
        ) as dynamo:
            yield dynamo

    @asynccontextmanager
    async def source(self) -> AsyncIterator[Source]:
        async with self.client() as dynamo:
            yield await tables_out.open_source(dynamo)

    @asynccontextmanager
    async def target(self) -> AsyncIterator[Target]:
        async with self.client() as dynamo:
            yield await tables_in.open_target(dynamo)

    async def counted(self) -> dict[str, int]:
        """How many items each table holds."""
        counts = {}
        async with self.client() as dynamo:
            for table in TABLES:
                look = Pattern("look", "Scan", (table.name,), "to count")
                pages = [len(page) async for page in whole_table(dynamo, look)]
                counts[table.name] = sum(pages)
        return counts


async def export_from(place: Place, now: int = LATER) -> bytes:
    """All of it, as an export writes it."""
    written: list[bytes] = []
    async with place.source() as source:
        await export_all(source, now, written.append, lambda _: None)
    return b"".join(written)


async def import_into(place: Place, export: bytes) -> Imported:
    """Take it in."""
    async with place.target() as target:
        return await import_all(target, lines_of(export), lambda _: None)


def export_of(*facts: Fact, version: int = VERSION) -> bytes:
    """An export that holds just these."""
    tally = Tally()
    lines = [encode(one) + b"\n" for one in (ExportStart(version=version, epoch="e"), *facts)]
    for line in lines:
        tally.add(line)
    for fact in facts:
        tally.count(fact)
    return b"".join([*lines, encode(tally.closing()), b"\n"])


def lines_of(export: bytes) -> list[bytes]:
    """The lines of an export, each with its end."""
    return export.splitlines(keepends=True)


class Killed(Exception):
    """The process would be dead now."""


class DiesWriting:
    """A target whose process is killed in the middle of its n-th write, half of it done."""

    def __init__(self, target: Target, write: int) -> None:
        self._target = target
        self._left = write
        self._reached = ExportProgress()

    async def begin(self) -> ExportProgress:
        self._reached = await self._target.begin()
        return self._reached

    async def write(self, facts: Sequence[Written], progress: ExportProgress) -> None:
        self._left -= 1
        if self._left == 0:
            await self._target.write(facts[: len(facts) // 2], self._reached)
            raise Killed
        await self._target.write(facts, progress)
        self._reached = progress

    async def finish(self, epoch: str) -> None:
        raise Killed


# A deployment.


async def fill(store: Store) -> list[ChatId]:
    """One of everything, and two of what has to be put in order; the chats."""
    await _fill_deployment(store)
    chats = [await _a_group(store), await _a_direct_chat(store), await _a_large_group(store)]
    others = [await a_chat(store, ANN, DAN) for _ in range(CHATS_AT_ONCE)]
    return [*chats, *(state.chat_id for state in others)]


async def _fill_deployment(store: Store) -> None:
    for secret in ("digest_key", "cursor_key"):
        await store.deployment.keep_first_sealed(secret, "master1", secret.encode() + b"\xff")
    for tenant in ("acme-2", "acme"):
        made = Tenant(tenant=tenant, name=None if tenant == "acme" else "Äcme", created_at=NOW)
        signing = SigningKey(
            key_id=f"sk-{tenant}", tenant=tenant, public=b"\x00\xfe", sealed_private=b"sealed",
            master_key_id="master1", created_at=NOW,
        )  # fmt: skip
        await store.tenants.put(made, signing)
        for number in ("9", "10"):
            kept = TenantKey(
                key_id=f"{tenant}-{number}", tenant=tenant, digest=b"\x01\x02", created_at=NOW
            )
            assert await store.tenants.add_key(kept)
    assert await store.tenants.revoke_key("acme", "acme-9", NOW + 5)
    await store.revocations.append(Revocation(kind="user", subject=DAN, at=NOW + 6))
    for user in (BOB, CAT, DAN, *some_users(15)):
        await store.users.put(user, display_name=None, phone_number=None, now=NOW)
    await store.users.put(ANN, display_name="Ann 🌻", phone_number="+491701", now=NOW)
    store.users.seen({BOB: NOW + 7})
    asked: list[ChatId] = []
    for user, expires_at in ((DAN, LATER + 1), (BOB, LATER + 1), (BOB, LATER), (CAT, LATER + 1)):
        invite = Invite(
            user_id=user, chat_id=new_chat_id(), inviter=ANN, role="admin", name="Küche",
            invited_at=NOW, expires_at=expires_at,
        )  # fmt: skip
        assert await store.invites.put(invite, NOW) == "new"
        asked.append(invite.chat_id)
    await store.invites.decline(CAT, asked[-1], NOW + 8)
    for author in (CAT, ANN, BOB, tenant_itself("acme")):
        wrapped = WrappedKey(
            author=author, generation=0, wrapped=author.encode(), master_key_id="master1"
        )
        await store.data_keys.add(wrapped)
    for author in (ANN, CAT):
        assert await store.data_keys.end(author, NOW + 6) == 1
        await store.data_keys.destroy(author, 1, NOW + 6)
    await store.data_keys.add(
        WrappedKey(author=ANN, generation=0, wrapped=b"second", master_key_id="master1")
    )


async def _a_group(store: Store) -> ChatId:
    """One with every kind of entry, reactions, mutes, receipts and claimed keys."""
    chat, entries = draft(ANN, BOB, name="Garden")
    await store.chats.create(chat, entries, request("made", expires_at=LATER + 1), NOW)
    state = await _state(store, chat.chat_id)
    await append_all(
        store, state, [message(ANN, f"m{n}") for n in range(2, 8)], claim_until=LATER + 1
    )
    await append_all(store, state, [message(BOB, "forgotten")], claim_until=LATER)
    lasting = message(BOB, "lasts", expires_at=LATER + 1)
    over = message(BOB, "over", expires_at=LATER)
    short = message(BOB, "redacted before its time", expires_at=LATER + 1)
    await append_all(store, state, [lasting, over, short])
    for emoji in ("👍🏽", "👍", "#️⃣"):
        for user in (BOB, ANN):
            assert await append(store, state, reacted(2, emoji, by=user)) == Kept()
    for change in (
        edited(3, "better"),
        edited(lasting.sequence, "still lasts", by=BOB),
        reacted(4, "👀"),
        redacted(4),
        redacted(short.sequence, by=BOB),
        added(CAT, DAN),
        role(CAT, "admin"),
        removed(DAN, by=tenant_itself("acme")),
        renamed("Garden & Küche"),
        reply(CAT, 3),
        mention(CAT, "ann", "bob"),
        mention(ANN, "*"),
        pinned(5),
        pinned(3),
        pinned(2),
        unpinned(5),
        posted(ANN),
        posted(tenant_itself("acme")),
        reply(ANN, 5),
        reply(BOB, 3, expires_at=LATER + 1),
        settings(frozen=True, slow_mode_seconds=60),
    ):
        assert await append(store, state, change) == Kept()
    block = Block(user=ANN, blocked=CAT, created_at=NOW, chat_id=chat.chat_id, delivered=3, read=2)
    assert await store.blocks.put(block)
    assert await store.blocks.put(Block(user=BOB, blocked=ANN, created_at=NOW))
    await _push(store)
    await store.webhooks.add(an_endpoint(events=("message.created", "user.deleted")))
    assert await store.users.ban(BOB, LATER, NOW)
    await _reports(store, chat.chat_id)
    assert await store.chats.mute(chat.chat_id, CAT, LATER + 5, except_mentions=True)
    assert await store.chats.mute(chat.chat_id, BOB, LATER + 5)
    await store.receipts.advance(Move(BOB, chat.chat_id, delivered=9, read=5, at=NOW + 5_000))
    await store.receipts.advance(Move(BOB, chat.chat_id, read=6, at=NOW + 9_000))
    await store.receipts.mark_unread(BOB, chat.chat_id, 3)
    await store.receipts.hide(BOB, chat.chat_id, is_hidden=True)
    await store.receipts.advance(Move(ANN, chat.chat_id, read=8))
    return chat.chat_id


async def _reports(store: Store, chat: ChatId) -> None:
    """Reports of a message and of a user, and one that has expired."""
    for report in (
        a_report(
            ANN,
            CAT,
            chat_id=chat,
            sequence=3,
            box=b"box",
            box_key=1,
            comment=b"c",
            files=b"files",
        ),
        a_report(BOB, CAT, state="resolved", note=b"n", note_key=1, action="ban", updated_at=NOW),
        a_report(CAT, ANN, expires_at=NOW - 1),
    ):
        await store.reports.add(report)


async def _push(store: Store) -> None:
    await store.push.register(a_push_device(ANN, "phone", "t1"))
    await store.push.register(a_push_device(BOB, "browser", "t2", app=None, session_id=None))
    settings = PushSettings(
        tenant="acme", content="preview", providers=("fcm", "apns"), box="b", updated_at=NOW
    )
    await store.push.put_settings(settings, None)


async def _a_direct_chat(store: Store) -> ChatId:
    state = await a_chat(store, BOB, ANN, kind="direct")
    await append_all(store, state, [message(ANN, "to you")])
    return state.chat_id


async def _a_large_group(store: Store) -> ChatId:
    """More entries than one page, more members than a chat names."""
    state = await a_chat(store, ANN, *some_users(15))
    await append_many(store, state, [message(ANN, f"n{n}") for n in range(PAGE_ENTRIES)])
    return state.chat_id


async def append_all(
    store: Store, state: ChatState, entries: Iterable[Entry], *, claim_until: int = LATER + 1
) -> None:
    """Append messages one by one, each with its claimed key."""
    for entry in entries:
        outcome = await append(store, state, entry, keys=[key(entry, expires_at=claim_until)])
        assert outcome == Kept()


async def _state(store: Store, chat: ChatId) -> ChatState:
    state = await store.log.state(chat)
    assert state is not None
    return state


_conforms: tuple[type[Place], type[Place]] = (FolderPlace, TablesPlace)
_conforms_target: type[Target] = DiesWriting
