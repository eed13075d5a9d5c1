# SPDX-License-Identifier: Apache-2.0
"""Checks the ids of attachments and the names of their parts, so that no path leaves its place.

The server makes both. They are checked again here, because they become paths and keys.
"""

from tidings.model.attachments import ATTACHMENT, PART_NAME


def checked_id(attachment_id: str) -> str:
    """Return the text, after an assertion that it is the id of an attachment."""
    assert ATTACHMENT.fullmatch(attachment_id), "the server makes the ids"
    return attachment_id


def checked_name(name: str) -> str:
    """Return the text, after an assertion that it is the name of a part."""
    assert PART_NAME.fullmatch(name), "the server makes the names"
    return name


def is_place(attachment_id: str, name: str) -> bool:
    """Return True if these are the id of an attachment and the name of a part."""
    return bool(ATTACHMENT.fullmatch(attachment_id) and PART_NAME.fullmatch(name))
