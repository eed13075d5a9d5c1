# SPDX-License-Identifier: Apache-2.0
"""All refusals: the reasons for declining a request that was understood, with stable codes.

Clients depend on the codes: a code keeps its meaning for ever and is never reused. Only
`wire.codes` knows how a refusal is sent over HTTP and on the socket.

    Refusal
    ├── Unauthenticated: CodeWrong, RefreshRefused
    ├── Forbidden: LoginOff, ChatFrozen, UserBanned, UserNotAddable, SendDeclined
    ├── NotFound: ChatNotFound, MessageNotFound, UserNotFound, InboxNotFound, ...
    ├── Invalid: ContentEmpty, ReceiptBeyondHead, ...
    ├── TooLarge: ContentTooLarge
    ├── Conflict: SendConflict, RequestConflict, MessageGone, LimitReached, PhoneTaken, ...
    └── Unavailable (retryable): StoreUnavailable, ChatBusy, InboxBusy, TooManyWaiting, ...
        └── TooMany: RateLimited, SlowMode, QuotaReached
"""

from typing import ClassVar


class Refusal(Exception):
    """A declined request.

    If the refusal is not retryable, the request had no effect, and a repeat would have none either.
    """

    code: ClassVar[str] = "refused"
    title: ClassVar[str] = "Refused"
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str = "") -> None:
        self.detail = detail or self.title
        super().__init__(self.detail)


class Unauthenticated(Refusal):
    """The credentials are missing or not valid."""

    code, title = "auth.required", "Valid credentials are required"


class Forbidden(Refusal):
    """The caller may see the resource, but may not perform this action on it."""

    code, title = "auth.forbidden", "Not allowed"


class CodeWrong(Unauthenticated):
    """The login code is wrong, used or expired. The answer never says which."""

    code, title = "login.code_wrong", "The code is wrong or has expired"


class RefreshRefused(Unauthenticated):
    """The refresh token is not valid: the user has to log in again."""

    code, title = "session.ended", "The session has ended"


class LoginOff(Forbidden):
    """This deployment sends no login codes."""

    code, title = "login.off", "Login by phone is not configured on this server"


class ChatFrozen(Forbidden):
    """The tenant has frozen the chat: members can read it, but not write."""

    code, title = "chat.frozen", "The chat is frozen"


class UserBanned(Forbidden):
    """The tenant has banned the user, who can read, but not write."""

    code, title = "user.banned", "The user is banned"


class UserNotAddable(Forbidden):
    """The user cannot be added to a group by the caller. The answer does not say why."""

    code, title = "user.not_addable", "The user cannot be added"


class SendDeclined(Forbidden):
    """The hook of the tenant declined the message, with a text for the sender."""

    code, title = "send.declined", "The message was declined"


class NotFound(Refusal):
    """The resource does not exist, or the caller may not see it. The answer does not say which."""

    code, title = "not_found", "Not found"


class ChatNotFound(NotFound):
    """The chat does not exist, or the caller is not a member."""

    code, title = "chat.not_found", "No such chat"


class MessageNotFound(NotFound):
    """The message does not exist, or the caller may not see it."""

    code, title = "message.not_found", "No such message"


class ReportNotFound(NotFound):
    """The tenant has no such report, or it has expired."""

    code, title = "report.not_found", "No such report"


class UserNotFound(NotFound):
    """The tenant has no such user."""

    code, title = "user.not_found", "No such user"


class MemberNotFound(NotFound):
    """The user is not a member of the chat."""

    code, title = "member.not_found", "Not a member of this chat"


class TenantNotFound(NotFound):
    """The tenant does not exist, or the caller may not see it."""

    code, title = "tenant.not_found", "No such tenant"


class KeyNotFound(NotFound):
    """The tenant has no such key."""

    code, title = "key.not_found", "No such key"


class SessionNotFound(NotFound):
    """The user has no such session."""

    code, title = "session.not_found", "No such session"


class InviteNotFound(NotFound):
    """The user has no invitation to this chat, or it is no longer open."""

    code, title = "invite.not_found", "No such invitation"


class InboxNotFound(NotFound):
    """The tenant has no such inbox."""

    code, title = "inbox.not_found", "No such inbox"


class NotificationNotFound(NotFound):
    """The inbox has no such notification."""

    code, title = "notification.not_found", "No such notification"


class ExportGone(NotFound):
    """The export has expired, or the content of the person was erased."""

    code, title = "export.gone", "The export is gone"


class JobNotFound(NotFound):
    """The tenant has no such job, or there is no dead letter with this id."""

    code, title = "job.not_found", "No such job"


class Invalid(Refusal):
    """The request is malformed: a field is missing, unknown, of the wrong type or out of range."""

    code, title = "request.invalid", "The request is not valid"

    def __init__(self, detail: str = "", pointer: str | None = None) -> None:
        super().__init__(detail)
        self.pointer = pointer


class ContentEmpty(Invalid):
    """The message has no content."""

    code, title = "content.empty", "Content is empty"


class ReceiptBeyondHead(Invalid):
    """The receipt is for a sequence after the head of the log."""

    code, title = "receipt.beyond_head", "The sequence is beyond the end of the log"


class NotFollowed(Invalid):
    """`received` is for a chat whose entries the connection does not get."""

    code, title = "receipt.not_followed", "This connection does not follow the chat"


class CursorInvalid(Invalid):
    """This server did not issue the cursor for this list and this caller."""

    code, title = "cursor.invalid", "The cursor is not valid for this list"


class OperationUnknown(Invalid):
    """The `op` of a frame is unknown to this server."""

    code, title = "op.unknown", "Unknown op"


class TooLarge(Refusal):
    """The request has more bytes than a limit allows."""

    code, title = "request.too_large", "The request is too large"


class ContentTooLarge(TooLarge):
    """The content has more bytes than a message may have."""

    code, title = "content.too_large", "Content is too large"


class Conflict(Refusal):
    """The request conflicts with the current state."""

    code, title = "conflict", "The request conflicts with the current state"


class SendConflict(Conflict):
    """The client_message_id was used with different content, type or lifetime."""

    code, title = "send.conflict", "This client_message_id was used for a different message"


class ReplyUnknown(Conflict):
    """The message to answer does not exist in this chat, or its content is gone."""

    code, title = "send.reply_unknown", "There is no message at the sequence in reply_to"


class MentionUnknown(Conflict):
    """The message mentions a user who is not a member of the chat."""

    code, title = "send.mention_unknown", "Only members of the chat can be mentioned"


class RequestConflict(Conflict):
    """The Idempotency-Key was used for a different request."""

    code, title = "request.conflict", "This Idempotency-Key was used for a different request"


class MessageGone(Conflict):
    """The content of the message was redacted, expired or erased."""

    code, title = "message.gone", "The content of the message is gone"


class DirectChatFixed(Conflict):
    """A direct chat always has the same two members, no roles and no name."""

    code, title = "chat.direct", "A direct chat cannot be changed"


class LastOwner(Conflict):
    """A group must keep at least one owner."""

    code, title = "role.last_owner", "A group must keep at least one owner"


class LimitReached(Conflict):
    """A documented limit, such as the number of members of a group, is reached."""

    code, title = "limit.reached", "A limit is reached"


class PhoneTaken(Conflict):
    """The phone number belongs to another user of the tenant."""

    code, title = "user.phone_taken", "The phone number belongs to another user"


class UserDeactivated(Conflict):
    """The tenant has deactivated the user, so no token for the user would be valid."""

    code, title = "user.deactivated", "The user is deactivated"


class ExportUnfinished(Conflict):
    """The job that gathers the export is still running."""

    code, title = "export.unfinished", "The export is not finished"


class UserDeleted(Conflict):
    """The user is deleted, for good: nobody gets this id again, and nothing can be sent to it."""

    code, title = "user.deleted", "The user is deleted"


class TenantDeleted(Conflict):
    """The tenant is deleted, for good: nobody gets this id again."""

    code, title = "tenant.deleted", "The tenant is deleted"


class InboxDeleting(Conflict):
    """An inbox of this name is still being deleted; try again later."""

    code, title = "inbox.deleting", "An inbox of this name is still being deleted"


class SchemaVersionConflict(Conflict):
    """The notification was written for another version of the inbox's schema."""

    code, title = "notification.schema_version", "The inbox has another schema version"


class Unavailable(Refusal):
    """The request had no effect, or its outcome is unknown. A repeat with the same key is safe."""

    code, title, retryable = "unavailable", "Not available at the moment", True


class StoreUnavailable(Unavailable):
    """The store does not answer."""

    code, title = "store.unavailable", "The store cannot be reached or cannot write"


class ChatBusy(Unavailable):
    """Too many requests write to one chat at once."""

    code, title = "chat.busy", "The chat is busy"


class InboxBusy(Unavailable):
    """Too many requests write to the log of one inbox at once."""

    code, title = "inbox.busy", "The inbox is busy"


class QueueUnavailable(Unavailable):
    """The queue of delivery jobs does not answer."""

    code, title = "queue.unavailable", "The queue cannot be reached"


class SmsUnavailable(Unavailable):
    """Text messages cannot be sent at the moment."""

    code, title = "sms.unavailable", "Text messages cannot be sent at the moment"

    def __init__(self, detail: str = "", retry_after_ms: int = 1_000) -> None:
        super().__init__(detail)
        self.retry_after_ms = retry_after_ms


class HookUnavailable(Unavailable):
    """The hook of the tenant does not answer, and the tenant lets no message pass without it."""

    code, title = "hook.unavailable", "The message cannot be checked at the moment"


class TooMany(Unavailable):
    """A limit on requests within a period is reached; this request had no effect."""

    code, title = "rate.limited", "Too many requests"

    def __init__(self, detail: str = "", retry_after_ms: int = 1_000) -> None:
        super().__init__(detail)
        self.retry_after_ms = retry_after_ms


class RateLimited(TooMany):
    """Requests arrive faster than a rate limit allows."""


class SlowMode(TooMany):
    """The chat is in slow mode, and the sender has sent a message not long ago."""

    code, title = "chat.slow_mode", "The chat is in slow mode"


class QuotaReached(TooMany):
    """The tenant has used up its daily quota."""

    code, title = "quota.reached", "The tenant's quota for today is used up"


class TooManyWaiting(Unavailable):
    """The connection has too many unanswered requests."""

    code, title = "connection.busy", "Too many unanswered requests on this connection"
