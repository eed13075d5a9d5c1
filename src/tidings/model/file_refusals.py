# SPDX-License-Identifier: Apache-2.0
"""Refusals of uploads and attachments, with stable codes, as in `model.refusals`."""

from tidings.model.refusals import Conflict, Forbidden, NotFound, Refusal, TooLarge


class AttachmentsOff(Forbidden):
    """This deployment stores no files."""

    code, title = "attachment.off", "Attachments are not configured on this server"


class AttachmentNotFound(NotFound):
    """The upload or attachment does not exist, or the caller may not see it."""

    code, title = "attachment.not_found", "No such attachment"


class AttachmentTooLarge(TooLarge):
    """The file is larger than the deployment or the tenant allows, or than was announced."""

    code, title = "attachment.too_large", "The file is too large"


class AttachmentTypeRefused(Refusal):
    """The tenant does not allow files of this type."""

    code, title = "attachment.type", "Files of this type are not allowed"


class AttachmentGone(Refusal):
    """The upload has expired, the content of its owner was erased, or its message was redacted or
    has expired."""

    code, title = "attachment.gone", "The file is gone"


class AttachmentLost(Refusal):
    """The bytes of the file are not stored, or they are damaged. A backup may have them."""

    code, title = "attachment.lost", "The server has lost the bytes of the file"


class RangeRefused(Refusal):
    """The range in the header `Range` begins after the end of the file."""

    code, title = "attachment.range", "The file has no bytes in this range"

    def __init__(self, size: int = 0) -> None:
        super().__init__(f"the file has {size} bytes")
        self.size = size


class AttachmentUnknown(Conflict):
    """The message names a file that is not a finished upload of its sender."""

    code, title = "attachment.unknown", "An attachment is not a finished upload of the sender"


class AttachmentUsed(Conflict):
    """The message names a file that belongs to another message."""

    code, title = "attachment.used", "An attachment belongs to another message"


class OffsetConflict(Conflict):
    """The bytes do not begin where the upload ends; the header `Upload-Offset` says where."""

    code, title = "attachment.offset", "The upload continues at another offset"

    def __init__(self, offset: int = 0) -> None:
        super().__init__(f"the upload continues at offset {offset}")
        self.offset = offset
