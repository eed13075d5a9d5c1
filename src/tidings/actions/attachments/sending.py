# SPDX-License-Identifier: Apache-2.0
"""Attach uploads to a new message, and decrypt the attachments of messages.

The list of a message's files is encrypted apart from its content, so that an edit does not touch
it. The transaction that appends the message also takes its uploads. An upload that another message
has, or that is gone, makes the log decline the message. A refused message leaves no trace.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.actions.attachments.sealing import open_file
from tidings.actions.content.vault import Sealed, Vault
from tidings.model.attachments import (
    ATTACHMENT,
    ATTACHMENTS_MAX,
    AttachedFiles,
    File,
    Upload,
    files_to_bytes,
)
from tidings.model.entries import SendKey, SendOptions
from tidings.model.file_refusals import AttachmentUnknown, AttachmentUsed
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid
from tidings.model.scheduled import scheduled_id_of
from tidings.ports.attachments import Uploads
from tidings.ports.world import Clock

_encode = msgspec.json.Encoder().encode


class Attaching:
    """The uploads that a new message names."""

    def __init__(
        self,
        uploads: Uploads,
        vault: Vault,
        clock: Clock,
        sender: UserKey,
        chat: ChatId,
        client_message_id: str,
        ids: Sequence[str],
    ) -> None:
        self._uploads = uploads
        self._vault = vault
        self._clock = clock
        self._sender = sender
        self._chat = chat
        # Bound to another name than the content, which cannot pass for the list of files.
        self._name = f"{client_message_id}\0files"
        self._ids = ids
        self._scheduled_id = scheduled_id_of(client_message_id)
        self._refusal: AttachmentUnknown | AttachmentUsed | None = None
        self._sealed: Sealed | None = None
        self.files: tuple[File, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the uploads are known, and the data key that encrypted them may be used."""
        if self._refusal is not None:
            return True
        sealed = self._sealed
        return sealed is not None and self._vault.may_write(self._sender, sealed)

    async def prepare(self) -> None:
        """Read the uploads, and encrypt the list of their files.

        Raises:
            StoreUnavailable: The uploads or the data key cannot be read now.
        """
        found = await self._uploads.find(self._sender, self._ids)
        uploads = {upload.attachment_id: upload for upload in found}
        files = [await self._file(uploads.get(name)) for name in self._ids]
        self._refusal = next((one for one in files if not isinstance(one, File)), None)
        self.files = tuple(file for file in files if isinstance(file, File))
        text = _encode(self.files).decode()
        self._sealed = await self._vault.seal(self._sender, self._chat, self._name, text)

    async def _file(self, upload: Upload | None) -> File | AttachmentUnknown | AttachmentUsed:
        if upload is None:
            return AttachmentUnknown()
        if upload.chat_id is not None or upload.scheduled_id not in (None, self._scheduled_id):
            return AttachmentUsed()
        has_expired = upload.scheduled_id is None and upload.expires_at <= self._clock.now()
        if has_expired or not upload.is_whole:
            return AttachmentUnknown()
        return await open_file(self._vault, upload) or AttachmentUnknown()

    def stored(self) -> bytes:
        """Return the attachments for the entry of the message.

        Raises:
            AttachmentUnknown: A file is not a finished upload of the sender.
            AttachmentUsed: A file belongs to another message. If the message was sent before, this
                is that message.
        """
        if self._refusal is not None:
            raise self._refusal
        assert self._sealed is not None, "the uploads are prepared first"
        sealed = self._sealed
        return files_to_bytes(AttachedFiles(tuple(self._ids), sealed.box_key, sealed.box))


class Sending(Protocol):
    """An action that sends messages, and can attach uploads to them."""

    @property
    def uploads(self) -> Uploads | None: ...
    @property
    def vault(self) -> Vault: ...
    @property
    def clock(self) -> Clock: ...


def attaching(
    sending: Sending, chat: ChatId, key: SendKey, options: SendOptions
) -> Attaching | None:
    """Return the uploads that a send names; None if it names none."""
    if not options.attachments:
        return None
    assert sending.uploads is not None, "whoever accepts attachments has uploads"
    return Attaching(
        sending.uploads,
        sending.vault,
        sending.clock,
        key.sender,
        chat,
        key.client_message_id,
        options.attachments,
    )


async def named_files(
    sending: Sending, sender: UserKey, options: SendOptions | None
) -> tuple[File, ...]:
    """Return the descriptions of the files that a send names, as far as they are uploads of the
    sender.

    Raises:
        StoreUnavailable: The uploads or the data key cannot be read now.
    """
    if options is None or not options.attachments or sending.uploads is None:
        return ()
    uploads = await sending.uploads.find(sender, options.attachments)
    files = [await open_file(sending.vault, upload) for upload in uploads]
    return tuple(file for file in files if file is not None)


def check_attachments(ids: Sequence[str]) -> None:
    """Refuse too many attachments, repeated ones, and texts that cannot be their ids."""
    if len(ids) > ATTACHMENTS_MAX:
        raise Invalid(f"attachments: must have at most {ATTACHMENTS_MAX} ids", "/attachments")
    if len(set(ids)) < len(ids):
        raise Invalid("attachments: must not contain an id twice", "/attachments")
    for index, name in enumerate(ids):
        if ATTACHMENT.fullmatch(name) is None:
            detail = "attachments: must be ids of uploads"
            raise Invalid(detail, f"/attachments/{index}")
