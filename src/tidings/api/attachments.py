# SPDX-License-Identifier: Apache-2.0
"""Operations on attachments: upload files, and read the files of messages."""

from typing import Annotated, Final
from urllib.parse import quote

import msgspec

from tidings.actions.attachments.downloading import Download, FilePlace
from tidings.actions.attachments.uploading import Cut
from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import FileVerbs
from tidings.api.operations import BINARY, Answer, Audited, Streamed, operation
from tidings.api.requests import Arriving, Body, RangeAsked, entity_tag
from tidings.model.attachments import (
    FILE_NAME_CHARS_MAX,
    INLINE,
    MEDIA_TYPE,
    MEDIA_TYPE_CHARS_MAX,
    PART_BYTES,
    PIXELS_MAX,
    THUMBNAIL_BYTES_MAX,
    Upload,
)
from tidings.model.file_refusals import (
    AttachmentGone,
    AttachmentLost,
    AttachmentNotFound,
    AttachmentsOff,
    AttachmentTooLarge,
    AttachmentTypeRefused,
    AttachmentUsed,
    OffsetConflict,
    RangeRefused,
)
from tidings.model.ids import ChatId, UserKey, rfc3339
from tidings.model.refusals import (
    ChatNotFound,
    Invalid,
    MessageNotFound,
    QuotaReached,
    TenantNotFound,
)
from tidings.ports.store import set_requester, user_requester

TAG: Final = "Attachments"
SANDBOX: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""Policy for files: even a browser that shows one runs no script in it and loads nothing."""
FILES_PATH: Final = "/v1/files/{link}"

_UPLOAD: Final = "/v1/attachments/{attachment_id}"
_ATTACHMENT: Final = "/v1/chats/{chat_id}/messages/{sequence}/attachments/{attachment_id}"
_READING: Final = (
    ChatNotFound,
    MessageNotFound,
    AttachmentNotFound,
    AttachmentGone,
    AttachmentLost,
)

FileName = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": FILE_NAME_CHARS_MAX})
]
MediaType = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"pattern": f"^{MEDIA_TYPE.pattern}$", "maxLength": MEDIA_TYPE_CHARS_MAX}
    ),
]
Size = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=PIXELS_MAX)]


class NewUpload(Body, frozen=True, kw_only=True):
    """A file to upload. `size` is the exact number of its bytes. Messages show `content_type` in
    lower case and without its parameters."""

    name: FileName
    content_type: MediaType
    size: Size
    width: Pixels | None = None
    height: Pixels | None = None


class LinkRequest(Body, frozen=True, kw_only=True):
    """Whether the link leads to the thumbnail."""

    thumbnail: bool = False


class UploadRecord(msgspec.Struct, kw_only=True):
    """A new upload. The bytes go to `upload_url`, in one request or in several. After each
    `chunk_bytes` the server stores what it has."""

    attachment_id: str
    upload_url: str
    chunk_bytes: int
    expires_at: str


class LinkRecord(msgspec.Struct, kw_only=True):
    """A link to a file, for a browser. It works without a token, for the user who asked for it,
    until it expires or the user leaves the chat."""

    url: str
    expires_at: str


@operation(
    "POST",
    "/v1/attachments",
    tag=TAG,
    summary="Create an upload",
    statuses=(201,),
    refusals=(AttachmentsOff, AttachmentTooLarge, AttachmentTypeRefused, QuotaReached),
    is_banned=True,
)
async def create_upload(user: UserKey, data: NewUpload, files: FileVerbs) -> UploadRecord:
    """Create an upload. Its bytes count in the tenant's quota from now on. An upload that is not
    sent with a message within 24 hours is deleted."""
    upload = await files.create(
        user, data.name, data.content_type, data.size, data.width, data.height
    )
    return _upload_record(upload)


@operation(
    "PUT",
    _UPLOAD,
    tag=TAG,
    summary="Upload a file",
    statuses=(204,),
    refusals=(AttachmentNotFound, AttachmentGone, AttachmentTooLarge, OffsetConflict),
)
async def upload_file(
    user: UserKey, attachment_id: str, stream: Arriving, files: FileVerbs
) -> Answer[None]:
    """Upload all bytes of a file, from its beginning. If the request is cut off, `HEAD` says how
    many bytes arrived, and `PATCH` sends the rest."""
    return await _receive(files, user, attachment_id, None, stream)


@operation(
    "PATCH",
    _UPLOAD,
    tag=TAG,
    summary="Continue an upload",
    statuses=(204,),
    headers=("Upload-Offset",),
    refusals=(AttachmentNotFound, AttachmentGone, AttachmentTooLarge, OffsetConflict),
)
async def continue_upload(
    user: UserKey,
    attachment_id: str,
    upload_offset: int | None,
    stream: Arriving,
    files: FileVerbs,
) -> Answer[None]:
    """Upload bytes that begin at `Upload-Offset`. The answer has the new offset in the same
    header."""
    if upload_offset is None:
        await files.find(user, attachment_id)
        raise Invalid("Upload-Offset: must be the number of bytes that were uploaded before")
    return await _receive(files, user, attachment_id, upload_offset, stream)


@operation(
    "HEAD",
    _UPLOAD,
    tag=TAG,
    summary="Get the offset of an upload",
    refusals=(AttachmentNotFound, AttachmentGone),
)
async def get_offset(user: UserKey, attachment_id: str, files: FileVerbs) -> Answer[None]:
    """Return how many bytes of a file arrived, in `Upload-Offset`, and its size, in
    `Upload-Length`."""
    upload, _ = await files.find(user, attachment_id)
    headers = {"Upload-Offset": str(upload.offset), "Upload-Length": str(upload.size)}
    return Answer(None, headers=headers)


@operation(
    "PUT",
    f"{_UPLOAD}/thumbnail",
    tag=TAG,
    summary="Upload a thumbnail",
    statuses=(204,),
    refusals=(
        AttachmentNotFound,
        AttachmentGone,
        AttachmentsOff,
        AttachmentTooLarge,
        AttachmentTypeRefused,
        AttachmentUsed,
        QuotaReached,
    ),
)
async def put_thumbnail(
    user: UserKey, attachment_id: str, stream: Arriving, files: FileVerbs
) -> None:
    """Upload a small image that stands for the file, at most 64 KiB. The server does not look into
    it. Its bytes count in the tenant's quota. Without a `Content-Type`, its type is
    `application/octet-stream`."""
    if stream.size is not None and stream.size > THUMBNAIL_BYTES_MAX:
        raise AttachmentTooLarge(f"a thumbnail may have at most {THUMBNAIL_BYTES_MAX} bytes")
    data = await stream.read(THUMBNAIL_BYTES_MAX + 1)
    await files.put_thumbnail(user, attachment_id, stream.content_type, data)


@operation(
    "GET",
    _ATTACHMENT,
    tag=TAG,
    summary="Read an attachment",
    statuses=(200, 206),
    headers=("Range", "If-Range"),
    media_type=BINARY,
    refusals=(*_READING, RangeRefused),
)
async def read_attachment(
    user: UserKey,
    chat: ChatId,
    sequence_in_path: int,
    attachment_id: str,
    range_asked: RangeAsked,
    files: FileVerbs,
) -> Answer[Streamed]:
    """Return the bytes of a file, or those in the header `Range`. Images, sound and video are sent
    with their type; a browser downloads all others."""
    place = FilePlace(user, chat, sequence_in_path, attachment_id)
    return await _read(files, place, *range_asked.within(place.attachment_id))


@operation(
    "GET",
    f"{_ATTACHMENT}/thumbnail",
    tag=TAG,
    summary="Read a thumbnail",
    media_type=BINARY,
    refusals=_READING,
)
async def read_thumbnail(
    user: UserKey, chat: ChatId, sequence_in_path: int, attachment_id: str, files: FileVerbs
) -> Answer[Streamed]:
    """Return the thumbnail of a file. The answer is 404 if it has none."""
    place = FilePlace(user, chat, sequence_in_path, attachment_id, is_thumbnail=True)
    return await _read(files, place)


@operation(
    "POST",
    f"{_ATTACHMENT}/link",
    tag=TAG,
    summary="Make a link to an attachment",
    refusals=_READING,
)
async def link_attachment(
    user: UserKey,
    chat: ChatId,
    sequence_in_path: int,
    attachment_id: str,
    files: FileVerbs,
    data: LinkRequest = LinkRequest(),  # noqa: B008 - it never changes
) -> LinkRecord:
    """Return a link for an element of a page such as `<img>` or `<video>`, which cannot send a
    token. It works for five minutes."""
    place = FilePlace(user, chat, sequence_in_path, attachment_id, data.thumbnail)
    secret, expires_at = await files.read.link(files.cursors, place)
    return LinkRecord(url=FILES_PATH.format(link=secret), expires_at=rfc3339(expires_at))


@operation(
    "GET",
    FILES_PATH,
    tag=TAG,
    summary="Read an attachment by its link",
    key=None,
    statuses=(200, 206),
    headers=("Range", "If-Range"),
    media_type=BINARY,
    refusals=(*_READING, RangeRefused),
)
async def follow_link(link: str, range_asked: RangeAsked, files: FileVerbs) -> Answer[Streamed]:
    """Return the bytes of a file, or those in the header `Range`. The user of the link must still
    be a member of the chat."""
    place = await files.read.follow(files.cursors, link)
    set_requester(user_requester(place.reader))
    return await _read(files, place, *range_asked.within(place.attachment_id))


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}/files/{attachment_id}",
    tag=TAG,
    summary="Read a file of a user",
    key="tenant",
    statuses=(200, 206),
    headers=("Range", "If-Range"),
    media_type=BINARY,
    refusals=(
        TenantNotFound,
        AttachmentNotFound,
        AttachmentGone,
        AttachmentLost,
        RangeRefused,
    ),
    audit=Audited(),
)
async def read_own_file(
    caller: Caller,
    tenant: str,
    user_id: str,
    attachment_id: str,
    range_asked: RangeAsked,
    files: FileVerbs,
) -> Answer[Streamed]:
    """Return the bytes of a file that a user has sent, for the export of the user's data. The
    messages of the export name the files in `attachments`."""
    first, last = range_asked.within(attachment_id)
    found = await files.read_own(caller, tenant, user_id, attachment_id, first, last)
    return streamed(attachment_id, found, is_part=first is not None or last is not None)


async def _receive(
    files: FileVerbs, user: UserKey, attachment_id: str, offset: int | None, stream: Arriving
) -> Answer[None]:
    try:
        end = await files.receive(user, attachment_id, offset, stream.pieces(Cut), stream.size)
    except Cut:
        raise Invalid("the body is incomplete") from None
    return Answer(None, status=204, headers={"Upload-Offset": str(end)})


async def _read(
    files: FileVerbs, place: FilePlace, first: int | None = None, last: int | None = None
) -> Answer[Streamed]:
    found = await files.read(place, first, last)
    is_part = first is not None or last is not None
    return streamed(place.attachment_id, found, is_part=is_part)


def streamed(attachment_id: str, found: Download, *, is_part: bool) -> Answer[Streamed]:
    """Return the answer with the bytes of a file."""
    return Answer(
        Streamed(found.data, _shown_type(found.content_type)),
        status=206 if is_part else 200,
        headers=_file_headers(attachment_id, found, is_part=is_part),
    )


def _file_headers(attachment_id: str, found: Download, *, is_part: bool) -> dict[str, str]:
    kind = "inline" if found.content_type in INLINE else "attachment"
    headers = {
        "Content-Length": str(found.end - found.start),
        "Content-Disposition": f"{kind}; filename*=UTF-8''{quote(found.name, safe='')}",
        "Content-Security-Policy": SANDBOX,
        "Accept-Ranges": "bytes",
        "ETag": entity_tag(attachment_id),
    }
    if is_part:
        headers["Content-Range"] = f"bytes {found.start}-{found.end - 1}/{found.size}"
    return headers


def _shown_type(content_type: str) -> str:
    """Return the type to send to a browser. A type that can contain scripts is never sent."""
    return content_type if content_type in INLINE else BINARY


def _upload_record(upload: Upload) -> UploadRecord:
    return UploadRecord(
        attachment_id=upload.attachment_id,
        upload_url=_UPLOAD.format(attachment_id=upload.attachment_id),
        chunk_bytes=PART_BYTES,
        expires_at=rfc3339(upload.expires_at),
    )


OPERATIONS: Final = (
    create_upload,
    upload_file,
    continue_upload,
    get_offset,
    put_thumbnail,
    read_attachment,
    read_thumbnail,
    link_attachment,
    follow_link,
    read_own_file,
)
