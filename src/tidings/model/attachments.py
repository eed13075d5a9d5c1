# SPDX-License-Identifier: Apache-2.0
"""Types and limits of attachments: uploads, parts of their bytes, and what messages say of them.

An upload belongs to one user. A message takes it over, and then it is an attachment. The name and
the bytes are encrypted: the name with the data key of the user, and the bytes with a key of the
file, which is encrypted together with the name. If the data key or the encrypted text is gone, so
is the file.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import msgspec

from tidings.model.ids import CHAT, ChatId, UserKey
from tidings.model.limits import DAY_MS, KIB, SECOND_MS
from tidings.model.refusals import Invalid

MIB: Final = 1024 * KIB

ATTACHMENT: Final = CHAT
"""The id of an attachment is a ULID too."""
ATTACHMENT_CHARS: Final = 26
ATTACHMENTS_MAX: Final = 10
"""Attachments of one message."""
ATTACHMENT_BYTES_DEFAULT: Final = 100 * MIB
PART_BYTES: Final = 4 * MIB
"""Bytes of an upload that are stored together. An upload that was cut off goes on after the last
part."""
FRAME_BYTES: Final = 256 * KIB
"""Bytes that are encrypted together. A reader decrypts whole frames."""
SHORT_PART_BYTES_MIN: Final = 16 * KIB
"""Minimum size of a part, if an upload is cut off. Fewer bytes are not stored."""
SHORT_PARTS_MAX: Final = 400
"""Parts with less than `PART_BYTES` that an upload may have."""
THUMBNAIL_BYTES_MAX: Final = 64 * KIB
FILE_NAME_CHARS_MAX: Final = 255
PIXELS_MAX: Final = 100_000
UPLOAD_MS: Final = DAY_MS
"""Time within which an upload must be sent with a message."""
SCHEDULED_FILES_MS: Final = 7 * DAY_MS
"""Time after which the sweeper looks whether a scheduled message with files was sent."""
RESERVED_MS: Final = 2 * 60 * SECOND_MS
"""Time after which the sweeper looks whether the scheduled message exists for which an upload is
reserved. A process that crashes can leave a reservation without its message."""
LATE_BYTES_MS: Final = DAY_MS // 24
"""Time after the end of an upload during which a request that began before may still store bytes.
Only then are its bytes deleted."""
ERASED_FILES_MS: Final = 60 * SECOND_MS
"""Time after which the bytes of an erased user's files are deleted, and those of a deleted chat. By
then, the data key is destroyed, or the messages are empty."""
LINK_MS: Final = 5 * 60 * SECOND_MS
CACHED_RULES_MAX: Final = 10_000
RULE_AGE_MS_MAX: Final = 5 * SECOND_MS
"""Age of a cached rule from which it is read again."""
UPLOADS_AT_ONCE_MAX: Final = 32
"""Uploads that a process receives at the same time. Each needs about 5 MB of memory."""
USER_UPLOADS_AT_ONCE_MAX: Final = 4
DOWNLOADS_AT_ONCE_MAX: Final = 128
"""Files that a process sends at the same time. Each needs about 2 MB of memory, or 3 MB if it comes
from a bucket."""
USER_DOWNLOADS_AT_ONCE_MAX: Final = 16
TENANT_TRANSFERS_PER_FREE: Final = 3
"""A tenant may have this many times the transfers that are free: three quarters of all if it is
alone, and fewer if others have many, too. Some are therefore left for a tenant that has none."""
TYPES_MAX: Final = 100
"""Media types in a tenant's list of allowed types."""

_SEPARATORS: Final = frozenset("/\\")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Characters that some scripts and emoji need, although they have no shape of their own."""
PART_NAME: Final = re.compile(r"[0-9a-f]{16}")
"""Name of a part: 8 random bytes."""
_NAME: Final = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}"
_ANY_NAME: Final = _NAME.replace("a-z", "A-Za-z")
_TOKEN: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED: Final = r'"(?:[\t !#-\[\]-~]|\\[\t -~])*"'
_PARAMETER: Final = rf"{_TOKEN}=(?:{_TOKEN}|{_QUOTED})"
MEDIA_TYPE: Final = re.compile(
    rf"({_ANY_NAME}/{_ANY_NAME})(?:[ \t]*;(?:[ \t]*{_PARAMETER})?)*[ \t]*"
)
"""A media type as a client may write it: with parameters, and in upper or lower case."""
MEDIA_TYPE_CHARS_MAX: Final = 255
"""Characters of a media type with its parameters."""
_PATTERN: Final = re.compile(rf"{_NAME}/({_NAME}|\*)")

INLINE: Final = frozenset(
    "image/png image/jpeg image/gif image/webp image/avif video/mp4 video/webm video/ogg audio/mpeg"
    " audio/mp4 audio/ogg audio/webm audio/wav audio/aac".split()
)
"""Types that a browser may show by itself. They contain no scripts. All others are downloaded."""
OPAQUE: Final = "application/octet-stream"
"""The type of a thumbnail of which the sender says no other."""
THUMBNAIL_TYPES: Final = (OPAQUE, *sorted(kind for kind in INLINE if kind.startswith("image/")))


def is_file_name(name: str) -> bool:
    """Return True if a file may have this name.

    Spaces of all kinds are allowed: macOS writes a narrow no-break space into the names of
    screenshots. Controls, line separators and marks that change the direction of writing are not.
    """
    return 1 <= len(name) <= FILE_NAME_CHARS_MAX and all(map(_is_in_file_names, name))


def _is_in_file_names(char: str) -> bool:
    if char.isprintable():
        return char not in _SEPARATORS
    return char in _JOINERS or unicodedata.category(char) == "Zs"


def plain_media_type(text: str) -> str | None:
    """Return a media type in lower case and without parameters; None if it is malformed."""
    match = MEDIA_TYPE.fullmatch(text) if len(text) <= MEDIA_TYPE_CHARS_MAX else None
    return None if match is None else match[1].lower()


class BlobPart(msgspec.Struct, frozen=True, array_like=True):
    """Stored bytes of an upload, encrypted."""

    name: str
    size: int
    """Number of bytes before encryption."""


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a file; this is encrypted with the data key of its owner."""

    attachment_id: str
    name: str
    content_type: str
    size: int
    key: bytes
    """The key that encrypts the bytes."""
    width: int | None = None
    height: int | None = None
    thumbnail_type: str | None = None
    thumbnail_size: int = 0
    """Size of the thumbnail; 0 if there is none."""


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """An upload as it is stored. It remains as long as its bytes."""

    owner: UserKey
    attachment_id: str
    size: int
    box: bytes
    """The encrypted `File`."""
    box_key: int
    """Generation of the owner's data key that encrypted the box."""
    created_at: int
    expires_at: int
    """Time after which no message can take over the upload."""
    parts: tuple[BlobPart, ...] = ()
    thumbnail: BlobPart | None = None
    chat_id: ChatId | None = None
    """The chat of the message that took over the upload; None if there is none yet."""
    sequence: int = 0
    scheduled_id: str | None = None
    """The scheduled message for which the upload is reserved; None if there is none."""
    kept_until: int | None = None
    """Time until which the bytes are kept although nobody in the chat can read them, because the
    message was reported; None if it was not."""

    @property
    def offset(self) -> int:
        """Number of bytes that are stored."""
        return sum(part.size for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are stored."""
        return self.offset == self.size

    @property
    def part_names(self) -> set[str]:
        """Names of all parts, including the thumbnail."""
        return {part.name for part in (*self.parts, *filter(None, (self.thumbnail,)))}


class AttachedFiles(msgspec.Struct, frozen=True, array_like=True):
    """The attachments of a message as they are stored: their ids, and an encrypted list of
    `File`."""

    ids: tuple[str, ...]
    box_key: int
    box: bytes


decode_files = msgspec.json.Decoder(tuple[File, ...]).decode
_encode_files = msgspec.msgpack.Encoder().encode
_decode_files = msgspec.msgpack.Decoder(AttachedFiles).decode


def files_to_bytes(files: AttachedFiles) -> bytes:
    """Convert the attachments of a message to one value."""
    return _encode_files(files)


def files_from_bytes(stored: bytes) -> AttachedFiles:
    """Convert the stored value of a message back to its attachments."""
    return _decode_files(stored)


def attached_ids(stored: bytes | None) -> tuple[str, ...]:
    """Return the ids of a message's attachments; empty if it has none."""
    return files_from_bytes(stored).ids if stored else ()


class AttachmentRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tenant allows its users to upload: the object `attachments` in its settings."""

    types: tuple[str, ...] | None = None
    """Media types; `image/*` stands for all types of images. None allows all types."""
    bytes_max: int | None = None
    """Size of the largest file; None for the limit of the deployment."""

    def allows(self, content_type: str) -> bool:
        """Return True if files of this type are allowed."""
        if self.types is None:
            return True
        return content_type in self.types or f"{content_type.partition('/')[0]}/*" in self.types


def attachment_rule_in(settings: Mapping[str, object]) -> AttachmentRule:
    """Return the value of `attachments` in a tenant's settings.

    Raises:
        Invalid: `attachments` is malformed.
    """
    try:
        rule = msgspec.convert(settings.get("attachments", {}), AttachmentRule)
    except msgspec.ValidationError:
        detail = "attachments may contain only types (media types) and bytes_max (a number)"
        raise Invalid(detail, "/attachments") from None
    if rule.bytes_max is not None and rule.bytes_max < 0:
        raise Invalid("bytes_max must be at least 0", "/attachments/bytes_max")
    types = rule.types or ()
    if len(types) > TYPES_MAX or any(_PATTERN.fullmatch(kind) is None for kind in types):
        detail = f"types must be at most {TYPES_MAX} media types such as image/png or image/*"
        raise Invalid(detail, "/attachments/types")
    return rule
