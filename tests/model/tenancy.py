# SPDX-License-Identifier: Apache-2.0
"""What the chats of a tenant have in common, in the reference: blocks, bans and uploaded files."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidings.model.attachments import ERASED_FILES_MS, LATE_BYTES_MS
from tidings.model.file_refusals import AttachmentUnknown, AttachmentUsed
from tidings.model.refusals import UserBanned

if TYPE_CHECKING:
    from tests.model.reference import Room

DAY_MS: Final = 24 * 3_600 * 1_000


@dataclass
class Upload:
    """A file that somebody uploaded, with all that has become of it."""

    owner: str
    name: str
    data: bytes
    is_whole: bool
    expires_at: int
    """When it can no longer be sent, unless it is reserved."""
    reserved: str | None = None
    """The client_message_id of the scheduled message that it waits for."""
    place: tuple["Room", int] | None = None
    """The message that has it."""
    is_removed: bool = False
    kept_until: int = 0
    """Until when its bytes are kept, because its message was reported."""

    def must_go(self, now: int) -> bool:
        """Whether its bytes have to be deleted by now."""
        if self.place is None:
            end = self.expires_at + LATE_BYTES_MS
        else:
            room, sequence = self.place
            end = room.log[-1].at + ERASED_FILES_MS
            if room.log[-1].kind != "deleted":
                end = now if room.log[sequence - 1].gone(now) else now + 1
        return end <= now and self.reserved is None and self.kept_until <= now

    def is_lost(self, now: int) -> bool:
        """Whether nobody can use it any more."""
        if self.kept_until > now:
            return False
        if self.place is None:
            return self.reserved is None and self.expires_at <= now
        room, sequence = self.place
        return room.log[-1].kind == "deleted" or room.log[sequence - 1].gone(now) is not None


@dataclass
class Shelf:
    """All uploads of all users, by their ids."""

    uploads: dict[str, Upload] = field(default_factory=dict)

    def check(self, user: str, ids: tuple[str, ...], cmid: str, now: int) -> None:
        """Refuse files that the user cannot send with this client_message_id."""
        for name in ids:
            upload = self.uploads.get(name)
            if upload is None or upload.owner != user or upload.is_removed:
                raise AttachmentUnknown
            if upload.place is not None or upload.reserved not in (None, cmid):
                raise AttachmentUsed
            if not upload.is_whole or upload.is_lost(now):
                raise AttachmentUnknown

    def reserve(self, ids: tuple[str, ...], cmid: str) -> None:
        for name in ids:
            self.uploads[name].reserved = cmid

    def release(self, ids: tuple[str, ...], now: int) -> None:
        """Their owner has another day to send them."""
        for name in ids:
            self.uploads[name].reserved = None
            self.uploads[name].expires_at = now + DAY_MS

    def take(self, ids: tuple[str, ...], room: "Room", sequence: int) -> None:
        for name in ids:
            self.uploads[name].place = (room, sequence)
            self.uploads[name].reserved = None


@dataclass
class Tenancy:
    """What a tenant's users have beside chats."""

    blocks: set[tuple[str, str]] = field(default_factory=set)
    """Who blocks whom."""
    bans: dict[str, int] = field(default_factory=dict)
    """Until when users are banned."""
    shelf: Shelf = field(default_factory=Shelf)

    def is_banned(self, user: str, now: int) -> bool:
        return self.bans.get(user, 0) > now

    def check_ban(self, user: str, now: int) -> None:
        if self.is_banned(user, now):
            raise UserBanned
