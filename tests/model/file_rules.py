# SPDX-License-Identifier: Apache-2.0
"""Rules for attachments: upload files, send them, read them, and sweep what nobody can read."""

from collections.abc import AsyncIterator
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from hypothesis.strategies import SearchStrategy

from tests.model.ground import Ground, picks, users
from tests.model.lines import Line, Options
from tests.model.message_rules import ONE, TWO
from tests.model.reference import Room
from tests.model.tenancy import DAY_MS, Upload
from tests.model.views import entry_of_product, entry_of_reference
from tests.support.canary import MARK
from tidings.actions.attachments.downloading import FilePlace
from tidings.model.attachments import ERASED_FILES_MS, LATE_BYTES_MS
from tidings.model.file_refusals import AttachmentGone, AttachmentNotFound
from tidings.model.ids import ChatId, UserKey

NOWHERE: Final = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""An id that no upload has."""
file_names: SearchStrategy[str] = st.sampled_from(["almond.txt", "hazel.png"])


texts = st.sampled_from([ONE, TWO, ""])
uploadings = st.sampled_from(["all", "all", "twice", "half"])


async def _bytes(data: bytes) -> AsyncIterator[bytes]:
    yield data


class FileRules(Ground):
    """What users do with files."""

    def upload(self, owner: UserKey, name: str, sends: str) -> str:
        """In one request or in two, or only the first half of it."""
        files = self.product.deployment.core.files
        data = f"{MARK} file {next(self.fresh)}".encode()
        kind = "text/plain" if name.endswith("txt") else "image/png"
        made = self.product.run(files.create(owner, name, kind, len(data)))
        half = len(data) if sends == "all" else len(data) // 2
        receive, place = files.receive, made.attachment_id
        self.product.run(receive(owner, place, 0, _bytes(data[:half]), half))
        if sends == "twice":
            rest = len(data) - half
            self.product.run(receive(owner, place, half, _bytes(data[half:]), rest))
        self.tenancy.shelf.uploads[place] = Upload(
            owner, name, data, sends != "half", self.now + DAY_MS
        )
        return place

    @rule(
        chat=Ground.chats,
        doings=st.lists(
            st.tuples(picks, st.lists(file_names, max_size=2), st.none() | picks, texts),
            min_size=1,
            max_size=3,
        ),
        sends=uploadings,
    )
    def send_files(
        self, chat: ChatId, doings: list[tuple[int, list[str], int | None, str]], sends: str
    ) -> None:
        """New files, and perhaps an earlier one, which may be sent or gone already."""
        room = self.room(chat)
        for pick, new, earlier, text in doings:
            sender = self.who(chat, pick)
            files = [self.upload(sender, name, sends) for name in new]
            files += [] if earlier is None else [self.file_of(sender, earlier)]
            options = Options(files=tuple(dict.fromkeys(files)))
            cmid = f"fresh-{next(self.fresh)}"
            for _ in range(1 + pick % 2 if files else 0):
                self._send_file(room, chat, sender, cmid, text, options)

    def _send_file(
        self, room: Room, chat: ChatId, sender: UserKey, cmid: str, text: str, options: Options
    ) -> None:
        both = self.same(
            lambda: room.send(sender, cmid, text, None, self.now, self.kept_ms, options),
            self.product.send(sender, chat, cmid, text, None, options),
        )
        if both is not None:
            (sequence, is_repeat), (entry, is_replay) = both
            assert (entry.sequence, is_replay) == (sequence, is_repeat)
            expected = entry_of_reference(room, sequence, sender, self.now)
            assert entry_of_product(entry)["files"] == expected["files"]
            self.happened["sent with files"] += 1

    def file_of(self, owner: str, pick: int) -> str:
        """An upload of the user; now and then anybody's, or none at all."""
        uploads = self.tenancy.shelf.uploads
        own = [name for name, upload in uploads.items() if upload.owner == owner]
        if pick % 8 == 0 or not own:
            return [*uploads, NOWHERE][pick // 8 % (len(uploads) + 1)]
        return own[-1 - pick // 8 % len(own)]

    @precondition(lambda self: self.sent_files())
    @rule(user=users, pick=picks, is_redacted=st.sampled_from([False, False, False, True]))
    def download(self, user: UserKey, pick: int, is_redacted: bool) -> None:
        """A file of a message, by anybody; or a file that the message does not have."""
        self.product.switch()
        sent = self.sent_files()
        chat, sequence, name = sent[-1 - pick // 8 % len(sent)]
        if is_redacted:
            self._redact_by_sender(chat, sequence)
        if pick % 8 == 0:
            name = [*self.tenancy.shelf.uploads, NOWHERE][pick // 8 % len(sent)]
        both = self.same(
            lambda: self._readable(self.rooms[chat], user, sequence, name),
            self._downloaded(FilePlace(user, chat, sequence, name)),
        )
        assert both is None or both[0] == both[1]
        self.happened["downloaded"] += both is not None

    def sent_files(self) -> list[tuple[ChatId, int, str]]:
        """All files that were sent: the message, and the id."""
        return [
            (chat, sequence, name)
            for chat, room in self.rooms.items()
            for sequence, line in room.messages()
            for name in line.files
        ]

    def _redact_by_sender(self, chat: ChatId, sequence: int) -> None:
        room = self.room(chat)
        sender = UserKey(room.log[sequence - 1].sender)
        self.same(
            lambda: room.redact(sender, sequence, self.now),
            self.product.verbs.redact(sender, chat, sequence),
        )

    def _readable(self, room: Room, user: str, sequence: int, name: str) -> tuple[str, bytes]:
        room.member(user)
        line = room.message(sequence)
        if line.gone(self.now):
            raise AttachmentGone
        if name not in line.files or (user, line.sender) in self.blocks:
            raise AttachmentNotFound
        upload = self.tenancy.shelf.uploads[name]
        return upload.name, upload.data

    async def _downloaded(self, place: FilePlace) -> tuple[str, bytes]:
        download = await self.product.deployment.core.files.read(place)
        data = b"".join([piece async for piece in download.data])
        return download.name, data

    @precondition(lambda self: self.tenancy.shelf.uploads)
    @rule(
        later=st.sampled_from([0, ERASED_FILES_MS, DAY_MS + LATE_BYTES_MS]),
        pick=picks,
        is_redacted=st.booleans(),
    )
    def sweep_files(self, later: int, pick: int, is_redacted: bool) -> None:
        """Bytes that nobody can read are deleted a while later, and no others."""
        self.move_clock(self.now + later)
        if is_redacted and (sent := self.sent_files()):
            chat, sequence, _ = sent[pick % len(sent)]
            self._redact_by_sender(chat, sequence)
        before = {name for name, upload in self.tenancy.shelf.uploads.items() if upload.is_removed}
        self.product.run(self.product.deployment.sweep())
        for line in self._expired_lines() if self.product.is_swept else ():
            line.content = None
        self.product.run(self.product.deployment.core.files.sweep.sweep())
        blobs = self.product.deployment.core.files.sweep.blobs
        for name, upload in self.tenancy.shelf.uploads.items():
            is_there = bool(self.product.run(blobs.names(name)))
            assert is_there or upload.is_lost(self.now)
            assert not (is_there and upload.must_go(self.now))
            assert not (is_there and name in before)
            upload.is_removed = not is_there
            self.happened["bytes deleted"] += not is_there and name not in before

    def compare_uploads(self) -> None:
        """Those that no message has: whether each is reserved, and until when it can be sent."""
        find = self.product.deployment.core.store.uploads.get
        for name, upload in self.tenancy.shelf.uploads.items():
            if upload.place is None and not upload.is_removed:
                found = self.product.run(find(UserKey(upload.owner), name))
                assert found is not None
                assert (found.scheduled_id is None) == (upload.reserved is None)
                assert found.expires_at == upload.expires_at

    def _expired_lines(self) -> list[Line]:
        return [
            line
            for room in self.rooms.values()
            for line in room.log
            if line.gone(self.now) == "expired" and line.content is not None
        ]
