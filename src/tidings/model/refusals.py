# SPDX-License-Identifier: Apache-2.0
"""Requests understood and declined: a closed catalogue with stable codes.

A code is wire format: it keeps its meaning for ever and is never used for another one. What a code
means over HTTP or on the socket stands in `wire.codes` alone.

    Refusal
    ├── Unauthenticated: CodeWrong, RefreshRefused
    ├── Forbidden: LoginOff
    ├── NotFound: ChatNotFound, MessageNotFound, UserNotFound, InboxNotFound, ...
    ├── Invalid: ContentEmpty, ReceiptBeyondHead, ...
    ├── TooLarge: ContentTooLarge, FrameTooLarge
    ├── Conflict: SendConflict, RequestConflict, MessageGone, LimitReached, PhoneTaken, ...
    └── Unavailable (retryable): StoreUnavailable, ChatBusy, InboxBusy, TooManyWaiting, ...
        └── TooMany: RateLimited, QuotaReached
"""

from typing import ClassVar


class Refusal(Exception):
    """Declined. Unless retryable, nothing happened and nothing will."""

    code: ClassVar[str] = "refused"
    title: ClassVar[str] = "Refused"
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str = "") -> None:
        self.detail = detail or self.title
        super().__init__(self.detail)


class Unauthenticated(Refusal):
    """No credentials, or ones that do not hold."""

    code, title = "auth.required", "Valid credentials are required"


class Forbidden(Refusal):
    """The caller sees the thing but may not do this to it."""

    code, title = "auth.forbidden", "Not allowed"


class CodeWrong(Unauthenticated):
    """Not the code that was sent, or one that does not count any more: never told which."""

    code, title = "login.code_wrong", "The code is wrong or does not count any more"


class RefreshRefused(Unauthenticated):
    """A refresh token that does not count: log in again."""

    code, title = "session.ended", "The session has ended"


class LoginOff(Forbidden):
    """This deployment sends no codes."""

    code, title = "login.off", "Logging in by phone is not set up here"


class NotFound(Refusal):
    """Not there, or not for this caller to see: the two are never told apart."""

    code, title = "not_found", "Not found"


class ChatNotFound(NotFound):
    """No such chat for this caller."""

    code, title = "chat.not_found", "No such chat"


class MessageNotFound(NotFound):
    """No such message for this caller."""

    code, title = "message.not_found", "No such message"


class UserNotFound(NotFound):
    """No such user in this tenant."""

    code, title = "user.not_found", "No such user"


class MemberNotFound(NotFound):
    """The user is not in the chat."""

    code, title = "member.not_found", "Not a member of this chat"


class TenantNotFound(NotFound):
    """No such tenant for this caller."""

    code, title = "tenant.not_found", "No such tenant"


class KeyNotFound(NotFound):
    """No such tenant key."""

    code, title = "key.not_found", "No such key"


class SessionNotFound(NotFound):
    """No such session of this user."""

    code, title = "session.not_found", "No such session"


class InviteNotFound(NotFound):
    """Nobody asks the user into this chat, or not any more."""

    code, title = "invite.not_found", "No such invitation"


class InboxNotFound(NotFound):
    """No such inbox of this tenant."""

    code, title = "inbox.not_found", "No such inbox"


class NotificationNotFound(NotFound):
    """No such notification in this inbox."""

    code, title = "notification.not_found", "No such notification"


class JobNotFound(NotFound):
    """No such job of this tenant, or none that was set aside."""

    code, title = "job.not_found", "No such job"


class Invalid(Refusal):
    """Malformed: a field is missing, unknown, of the wrong type or out of range."""

    code, title = "request.invalid", "The request is not valid"

    def __init__(self, detail: str = "", pointer: str | None = None) -> None:
        super().__init__(detail)
        self.pointer = pointer


class ContentEmpty(Invalid):
    """A message needs content."""

    code, title = "content.empty", "Content is empty"


class ReceiptBeyondHead(Invalid):
    """A receipt for what the log does not hold."""

    code, title = "receipt.beyond_head", "The log does not reach that far"


class CursorInvalid(Invalid):
    """A cursor that this server did not make for this list and this caller."""

    code, title = "cursor.invalid", "The cursor is not valid here"


class OperationUnknown(Invalid):
    """A frame whose op this server does not know."""

    code, title = "op.unknown", "Unknown op"


class TooLarge(Refusal):
    """More bytes than a limit allows."""

    code, title = "request.too_large", "Too large"


class ContentTooLarge(TooLarge):
    """More content than a message holds."""

    code, title = "content.too_large", "Content is too large"


class Conflict(Refusal):
    """At odds with what is there."""

    code, title = "conflict", "Conflicts with the present state"


class SendConflict(Conflict):
    """The client_message_id was used for another content, type or ttl."""

    code, title = "send.conflict", "This client_message_id was used for another message"


class RequestConflict(Conflict):
    """The Idempotency-Key was used for another request."""

    code, title = "request.conflict", "This Idempotency-Key was used for another request"


class MessageGone(Conflict):
    """The message has no content any more: redacted, expired or erased."""

    code, title = "message.gone", "The message has no content any more"


class DirectChatFixed(Conflict):
    """A direct chat has two members for ever, no roles and no name."""

    code, title = "chat.direct", "A direct chat cannot be changed"


class LastOwner(Conflict):
    """A group keeps at least one owner."""

    code, title = "role.last_owner", "A group keeps at least one owner"


class LimitReached(Conflict):
    """A documented limit on how many of something there may be."""

    code, title = "limit.reached", "A limit is reached"


class PhoneTaken(Conflict):
    """The number belongs to another user of the tenant."""

    code, title = "user.phone_taken", "The phone number is another user's"


class UserDeactivated(Conflict):
    """The tenant has deactivated the user: no token would count."""

    code, title = "user.deactivated", "The user is deactivated"


class SchemaVersionConflict(Conflict):
    """The message was made for another version of the inbox's schema."""

    code, title = "notification.schema_version", "The inbox has another schema version"


class Unavailable(Refusal):
    """Nothing happened, or the outcome is unknown: repeat with the same key."""

    code, title, retryable = "unavailable", "Not available at the moment", True


class StoreUnavailable(Unavailable):
    """The store cannot answer."""

    code, title = "store.unavailable", "The store cannot be reached or cannot write"


class ChatBusy(Unavailable):
    """Too many writers on one chat at once."""

    code, title = "chat.busy", "The chat is busy"


class InboxBusy(Unavailable):
    """Too many writers on the log of one inbox at once."""

    code, title = "inbox.busy", "The inbox is busy"


class QueueUnavailable(Unavailable):
    """The queue of delivery jobs does not answer."""

    code, title = "queue.unavailable", "The queue cannot be reached"


class SmsUnavailable(Unavailable):
    """Texts cannot be sent at the moment."""

    code, title = "sms.unavailable", "Texts cannot be sent at the moment"

    def __init__(self, detail: str = "", retry_after_ms: int = 1_000) -> None:
        super().__init__(detail)
        self.retry_after_ms = retry_after_ms


class TooMany(Unavailable):
    """More than a limit allows within a time; nothing happened."""

    code, title = "rate.limited", "Too many requests"

    def __init__(self, detail: str = "", retry_after_ms: int = 1_000) -> None:
        super().__init__(detail)
        self.retry_after_ms = retry_after_ms


class RateLimited(TooMany):
    """Faster than anyone honest."""


class QuotaReached(TooMany):
    """The tenant has used up what it may use in a day."""

    code, title = "quota.reached", "The tenant's quota for today is used up"


class TooManyWaiting(Unavailable):
    """The connection has too many requests without an answer."""

    code, title = "connection.busy", "Too many requests are waiting on this connection"
