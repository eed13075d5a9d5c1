# SPDX-License-Identifier: Apache-2.0
"""Check the fields of a message before it is sent, scheduled or edited."""

from typing import Final

from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import EVERYONE, SendOptions
from tidings.model.ids import CLIENT_MESSAGE_ID, USER, UserKey, user_key
from tidings.model.refusals import (
    ContentEmpty,
    ContentTooLarge,
    Forbidden,
    Invalid,
    MentionUnknown,
)
from tidings.model.scheduled import SENT_AS

CONTENT_CHARS_SURE: Final = limits.CONTENT_BYTES_MAX // 4
"""Content of up to this many characters is never too large."""
_EVERYONE: Final = (
    f"only admins and owners may mention everyone in a chat of more than"
    f" {limits.SMALL_CHAT_MEMBERS_MAX} members"
)


def check_content(content: str) -> None:
    """Refuse empty or too large content; the limit is in bytes of UTF-8."""
    if not content:
        raise ContentEmpty
    if len(content) > CONTENT_CHARS_SURE and (
        len(content) > limits.CONTENT_BYTES_MAX or len(content.encode()) > limits.CONTENT_BYTES_MAX
    ):
        raise ContentTooLarge(f"content has more than {limits.CONTENT_BYTES_MAX} bytes")


def check_message_fields(
    client_message_id: str,
    content_type: str | None,
    ttl_seconds: int | None,
    *,
    is_scheduled: bool = False,
) -> None:
    """Refuse a malformed id, content type or lifetime, and an id that only scheduled messages
    have."""
    if CLIENT_MESSAGE_ID.fullmatch(client_message_id) is None:
        allowed = "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -"
        raise Invalid(f"client_message_id: {allowed}", "/client_message_id")
    if client_message_id.startswith(SENT_AS) and not is_scheduled:
        raise Invalid(f"client_message_id: must not begin with {SENT_AS}", "/client_message_id")
    if content_type is not None and not _is_content_type(content_type):
        raise Invalid("content_type: must be a media type such as text/plain", "/content_type")
    if ttl_seconds is not None and not 1 <= ttl_seconds <= limits.TTL_SECONDS_MAX:
        most = limits.TTL_SECONDS_MAX
        raise Invalid(f"ttl_seconds: must be between 1 and {most}", "/ttl_seconds")


def check_mentions(mentions: tuple[str, ...]) -> None:
    """Refuse too many mentions, and names that cannot be those of users."""
    if mentions == EVERYONE:
        return
    if len(mentions) > limits.MENTIONS_MAX:
        raise Invalid(f"mentions: must have at most {limits.MENTIONS_MAX} users", "/mentions")
    if len(set(mentions)) < len(mentions):
        raise Invalid("mentions: must not contain a user twice", "/mentions")
    for index, name in enumerate(mentions):
        if USER.fullmatch(name) is None:
            allowed = 'must be a user id; "*" must be alone'
            raise Invalid(f"mentions: {allowed}", f"/mentions/{index}")


def check_options(state: ChatState, sender: UserKey, options: SendOptions) -> None:
    """Refuse mentions of users who are not members, and of everyone if the sender may not do
    that."""
    if options.mentions == EVERYONE:
        member = state.members.get(sender)
        is_allowed = member is None or roles.may_mention_everyone(member.role)
        if not state.is_small and not is_allowed:
            raise Forbidden(_EVERYONE)
    elif any(user_key(state.tenant, name) not in state.members for name in options.mentions):
        raise MentionUnknown


def _is_content_type(text: str) -> bool:
    return (
        len(text) <= limits.CONTENT_TYPE_CHARS_MAX
        and text.isascii()
        and text.isprintable()
        and 0 < text.find("/") < len(text) - 1
    )
