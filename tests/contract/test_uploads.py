# SPDX-License-Identifier: Apache-2.0
"""Uploads: their parts, the messages that take them, and the visits of the sweeper."""

from msgspec.structs import replace

from tests.contract.builders import a_chat, append, deleted, entry_at, message, redacted
from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.attachments import LATE_BYTES_MS, AttachedFiles, BlobPart, Upload, files_to_bytes
from tidings.model.entries import Entry
from tidings.model.ids import UserKey, ulid
from tidings.model.limits import DAY_MS
from tidings.model.scheduled import SENT_AS
from tidings.ports.attachments import Visit
from tidings.ports.log import Declined, Kept

USED = Declined(0, "attachment_used")
A, B = BlobPart("a" * 16, 5), BlobPart("b" * 16, 7)
_numbers = iter(range(1, 1_000))


def an_upload(**more: int) -> Upload:
    name = ulid(NOW, next(_numbers).to_bytes(10, "big"))
    made = Upload(
        owner=ANN,
        attachment_id=name,
        size=12,
        box=b"box",
        box_key=1,
        created_at=NOW,
        expires_at=NOW + DAY_MS,
    )
    return replace(made, **more)


async def stored(store: Store, **more: int) -> Upload:
    upload = an_upload(**more)
    await store.uploads.create(upload, NOW + 2 * DAY_MS)
    return upload


def with_files(*uploads: Upload, sender: UserKey = ANN, expires_at: int | None = None) -> Entry:
    entry = message(sender, expires_at=expires_at)
    ids = tuple(upload.attachment_id for upload in uploads)
    entry.files = files_to_bytes(AttachedFiles(ids, 1, b"sealed"))
    return entry


async def due(store: Store, upload: Upload, at: int) -> list[int]:
    """When the visits of an upload are due, of those up to a time."""
    visits = await store.uploads.due(at, 1_000)
    return [visit.at for visit in visits if visit.attachment_id == upload.attachment_id]


async def test_parts_are_replaced_only_by_who_knows_them(store: Store) -> None:
    upload = await stored(store)
    assert await store.uploads.get(ANN, upload.attachment_id) == upload
    assert await store.uploads.get(BOB, upload.attachment_id) is None
    assert await store.uploads.replace_parts(upload, [A])
    assert not await store.uploads.replace_parts(upload, [B])
    longer = replace(upload, parts=(A,))
    assert await store.uploads.replace_parts(longer, [A, B])
    found = await store.uploads.get(ANN, upload.attachment_id)
    assert found == replace(upload, parts=(A, B))
    assert (found.offset, found.is_whole) == (12, True)
    assert not await store.uploads.replace_parts(an_upload(), [A])


async def test_a_thumbnail_is_replaced_with_what_describes_it(store: Store) -> None:
    upload = await stored(store)
    assert await store.uploads.replace_thumbnail(upload, A, b"other")
    assert not await store.uploads.replace_thumbnail(upload, B, b"late")
    with_one = replace(upload, thumbnail=A, box=b"other")
    assert await store.uploads.get(ANN, upload.attachment_id) == with_one
    assert await store.uploads.replace_thumbnail(with_one, B, b"third")


async def test_a_message_takes_its_uploads_once(store: Store) -> None:
    state = await a_chat(store)
    first, second = await stored(store), await stored(store)
    assert await append(store, state, with_files(first, second)) == Kept()
    sent = await entry_at(store, state, 2)
    assert sent.files is not None
    taken = replace(first, chat_id=state.chat_id, sequence=2)
    assert await store.uploads.get(ANN, first.attachment_id) == taken
    assert not await store.uploads.replace_parts(taken, [A])
    assert not await store.uploads.replace_thumbnail(taken, A, b"late")

    free = await stored(store)
    assert await append(store, state, with_files(free, second)) == USED
    assert await store.uploads.get(ANN, free.attachment_id) == free
    assert await append(store, state, with_files(free, sender=BOB)) == USED
    assert await append(store, state, with_files(an_upload())) == USED
    late = await stored(store, expires_at=NOW)
    assert await append(store, state, with_files(late)) == USED
    assert await append(store, state, with_files(free)) == Kept()
    ids = [first.attachment_id, free.attachment_id, late.attachment_id]
    found = await store.uploads.find(ANN, [*ids, "0" * 26])
    assert sorted((one.attachment_id, one.sequence) for one in found) == [
        (ids[0], 2),
        (ids[1], 3),
        (ids[2], 0),
    ]


async def test_an_expiring_message_has_its_files_alone_and_on_a_page(store: Store) -> None:
    state = await a_chat(store)
    sent = with_files(await stored(store), expires_at=NOW + DAY_MS)
    assert await append(store, state, sent) == Kept()
    one = await store.log.message(state.chat_id, ANN, 2)
    page = await store.log.page(state.chat_id, ANN, after=1, limit=10)
    for found in (one, page):
        assert found is not None
        assert [entry.files for entry in found.entries] == [sent.files]


async def test_what_loses_its_content_is_visited(store: Store) -> None:
    state = await a_chat(store)
    kept, gone = await stored(store), await stored(store)
    await append(store, state, with_files(kept))
    await append(store, state, with_files(gone))
    assert await append(store, state, redacted(3)) == Kept()
    assert (await entry_at(store, state, 3)).files is None
    assert (await entry_at(store, state, 2)).files is not None
    soon = NOW + DAY_MS
    assert (await due(store, kept, soon), len(await due(store, gone, soon))) == ([], 1)

    assert await append(store, state, deleted()) == Kept()
    job = await store.deletions.lease(state.chat_id, "test", NOW)
    while job is not None and job.phase != "done":
        job = await store.deletions.step(job, "test", NOW)
    emptied = await store.log.entry(state.chat_id, 2)
    assert emptied is not None and emptied.files is None
    assert len(await due(store, kept, soon)) == 1


async def test_expired_files_are_visited(store: Store) -> None:
    state = await a_chat(store)
    upload = await stored(store)
    await append(store, state, with_files(upload, expires_at=NOW + 1_000))
    found = await entry_at(store, state, 2)
    assert found.files == with_files(upload).files
    await store.sweeping.empty_expired(NOW + 1_000, 10)
    assert len(await due(store, upload, NOW + 1_000)) == 1


async def test_visits_are_made_once_and_moved(store: Store) -> None:
    upload = await stored(store)
    at = NOW + 2 * DAY_MS
    assert await due(store, upload, at - 1) == []
    assert await due(store, upload, at) == [at]
    await store.uploads.visited(Visit(ANN, upload.attachment_id, at), at + 5)
    assert await due(store, upload, at + 5) == [at + 5]
    await store.uploads.visit_all(ANN, NOW)
    assert (await due(store, upload, NOW)) == [NOW]
    await store.uploads.visit_all(ANN, NOW + 1)
    await store.uploads.visited(Visit(ANN, upload.attachment_id, NOW), NOW + 9)
    assert (await due(store, upload, NOW + 1)) == [NOW + 1], "a visit under way is not the last"
    await store.uploads.visited(Visit(ANN, upload.attachment_id, NOW + 1), None)
    assert await due(store, upload, NOW + 1) == []
    assert upload.attachment_id in await store.uploads.of_owner(ANN, 1_000)
    await store.uploads.remove(ANN, upload.attachment_id)
    assert upload.attachment_id not in await store.uploads.of_owner(ANN, 1_000)
    assert await store.uploads.get(ANN, upload.attachment_id) is None


async def test_a_reserved_upload_belongs_to_its_scheduled_message(store: Store) -> None:
    upload = await stored(store)
    state = await a_chat(store, ANN, BOB)
    reserve, name = store.uploads.reserve, upload.attachment_id
    for _ in range(2):
        assert await reserve(ANN, name, "one", NOW)
    assert not await reserve(ANN, name, "two", NOW)
    assert not await reserve(BOB, name, "one", NOW)
    assert await append(store, state, with_files(upload)) == USED
    found = await store.uploads.get(ANN, name)
    assert found is not None
    assert found.scheduled_id == "one"

    await store.uploads.release(ANN, name, "two", NOW)
    assert await store.uploads.get(ANN, name) == found
    late = NOW + 9 * DAY_MS
    await store.uploads.release(ANN, name, "one", late)
    assert await store.uploads.get(ANN, name) == replace(upload, expires_at=late)
    assert late + LATE_BYTES_MS in await due(store, upload, late + LATE_BYTES_MS)
    assert not await reserve(ANN, name, "one", late)
    assert await reserve(ANN, name, "one", late - 1)
    assert await reserve(ANN, name, "one", late), "what is reserved does not expire"

    entry = with_files(upload)
    entry.client_message_id, entry.created_at = f"{SENT_AS}one", late + 1
    assert await append(store, state, entry) == Kept()
    taken = await store.uploads.get(ANN, name)
    assert taken is not None
    assert (taken.chat_id, taken.sequence, taken.scheduled_id) == (
        state.chat_id, entry.sequence, None
    )  # fmt: skip
    assert not await reserve(ANN, name, "one", NOW)


async def test_an_upload_is_kept_until_the_latest_time(store: Store) -> None:
    upload = await stored(store)
    for until in (NOW + 5, NOW + 9, NOW + 7):
        await store.uploads.keep_bytes(ANN, upload.attachment_id, until)
    assert await store.uploads.get(ANN, upload.attachment_id) == replace(upload, kept_until=NOW + 9)
    await store.uploads.remove(ANN, upload.attachment_id)
    await store.uploads.keep_bytes(ANN, upload.attachment_id, NOW + 9)
    assert await store.uploads.get(ANN, upload.attachment_id) is None
