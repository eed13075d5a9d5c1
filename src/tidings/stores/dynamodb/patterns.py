# SPDX-License-Identifier: Apache-2.0
"""The only declaration of the access patterns.

The client reads the table, the index and the consistency of each request from its pattern, so no
request can differ from its declaration. The matrix in the docs and the rights of each role are
generated from the patterns, and tests check their invariants. Other rooms declare theirs.
"""

from typing import Final

from tidings.stores.dynamodb.chat import deletion_patterns, head_patterns, link_patterns
from tidings.stores.dynamodb.client.access import Pattern as Pattern
from tidings.stores.dynamodb.client.access import of_module
from tidings.stores.dynamodb.export import repair_patterns
from tidings.stores.dynamodb.identity import identity_patterns, push_patterns
from tidings.stores.dynamodb.inbox import due_patterns, inbox_patterns, webhook_patterns

# The log.

CLAIM_KEY: Final = Pattern("claim_key", "PutItem", ("idempotency_keys",), "a send claims its key")
FIND_KEY: Final = Pattern(
    "find_key", "GetItem", ("idempotency_keys",), "the outcome of a claimed key", strong=True
)
MOVE_HINT: Final = Pattern(
    "move_hint",
    "UpdateItem",
    ("idempotency_keys",),
    "record how far a search for a repeated send got, so that the next one starts there",
)
PUT_BODY: Final = Pattern(
    "put_body",
    "PutItem",
    ("bodies",),
    "the content of an expiring message, written before its entry",
)
READ_BODIES: Final = Pattern(
    "read_bodies", "BatchGetItem", ("bodies",), "the content of expiring messages", strong=True
)
CLAIM_SLOT: Final = Pattern("claim_slot", "PutItem", ("messages",), "a message claims its sequence")
CLAIM_SLOTS: Final = Pattern(
    "claim_slots", "PutItem", ("messages",), "a pack of messages claims its first sequence"
)
CHANGE_CHAT: Final = Pattern(
    "change_chat",
    "TransactWriteItems",
    ("messages", "bodies", "chats", "chat_memberships", "delivery_state", "reactions",
     "idempotency_keys"),
    "an entry with its changes: members, name, message, reaction, reply, pin, mentions, uploads",
    deletes=("bodies", "chat_memberships", "delivery_state", "reactions"),
)  # fmt: skip
READ_LOG: Final = Pattern(
    "read_log", "Query", ("messages",), "entries in order, ascending or descending", strong=True
)
READ_ENTRY: Final = Pattern("read_entry", "GetItem", ("messages",), "one entry", strong=True)
READ_ENTRIES: Final = Pattern(
    "read_entries", "BatchGetItem", ("messages",), "entries by their sequences", strong=True
)
READ_MESSAGE: Final = Pattern(
    "read_message",
    "BatchGetItem",
    ("messages", "chats"),
    "one message with its chat",
    strong=True,
    relaxed=("chats",),
)
READ_MESSAGE_STATUS: Final = Pattern(
    "read_message_status",
    "BatchGetItem",
    ("chat_memberships", "delivery_state", "reactions", "bodies"),
    "membership of the reader, with receipts, own reactions and expiring content of a message",
    strong=True,
    relaxed=("delivery_state",),
)
READ_OWN_REACTIONS: Final = Pattern(
    "read_own_reactions", "BatchGetItem", ("reactions",), "a reader's own reactions", strong=True
)
READ_REACTIONS: Final = Pattern(
    "read_reactions", "Query", ("reactions",), "who reacted to a message", strong=True
)
FORGET_REACTIONS: Final = Pattern(
    "forget_reactions", "BatchWriteItem", ("reactions",), "remove reactions to a redacted message"
)

# Members and chats.

CHECK_MEMBER: Final = Pattern(
    "check_member", "GetItem", ("chat_memberships",), "whether a user is a member", strong=True
)
LIST_MEMBERS: Final = Pattern(
    "list_members", "Query", ("chat_memberships",), "who is in a chat", strong=True
)
MUTE: Final = Pattern("mute", "UpdateItem", ("chat_memberships",), "mute a chat for a while")
READ_CHAT: Final = Pattern(
    "read_chat", "GetItem", ("chats",), "a chat's type, name and creator", strong=True
)
SHOW_CHAT: Final = Pattern("show_chat", "GetItem", ("chats",), "the same, for display")
FIND_PAIR: Final = Pattern(
    "find_pair", "GetItem", ("chats",), "the direct chat of two users", strong=True
)
SHOW_PAIRS: Final = Pattern(
    "show_pairs",
    "BatchGetItem",
    ("chats",),
    "which of several users have a direct chat with a user",
)
FIND_REQUEST: Final = Pattern(
    "find_request", "GetItem", ("idempotency_keys",), "a request to create a chat", strong=True
)
LIST_INVITES: Final = Pattern(
    "list_invites", "Query", ("idempotency_keys",), "a user's open invitations", strong=True
)
READ_INVITE: Final = Pattern(
    "read_invite", "GetItem", ("idempotency_keys",), "a user's invitation to a chat",
    strong=True,
)  # fmt: skip
KEEP_INVITE: Final = Pattern(
    "keep_invite", "PutItem", ("idempotency_keys",), "a user is invited to a group"
)
DECLINE_INVITE: Final = Pattern(
    "decline_invite", "UpdateItem", ("idempotency_keys",), "a user declines an invitation"
)
DROP_INVITE: Final = Pattern(
    "drop_invite", "DeleteItem", ("idempotency_keys",), "an invitation ends"
)
KEEP_REQUEST: Final = Pattern(
    "keep_request",
    "PutItem",
    ("idempotency_keys",),
    "a request to create a chat that already existed",
)
FINISH_REQUEST: Final = Pattern(
    "finish_request",
    "UpdateItem",
    ("idempotency_keys",),
    "all members of a large chat have been added",
)
CREATE_CHAT: Final = Pattern(
    "create_chat",
    "TransactWriteItems",
    ("messages", "chats", "chat_memberships", "delivery_state", "idempotency_keys", "listings"),
    "a chat with its first entry and first members",
)
FIND_OWN: Final = Pattern(
    "find_own", "Query", ("messages",), "whether a user wrote in an old direct chat"
)
COUNT_CHATS: Final = Pattern(
    "count_chats", "Query", ("delivery_state",), "whether a user may join one more chat"
)

# The chat list, receipts, heads.

LIST_CHATS: Final = Pattern(
    "list_chats", "Query", ("delivery_state",), "a user's chats with the receipts", strong=True
)
LIST_ROLES: Final = Pattern(
    "list_roles",
    "Query",
    ("chat_memberships",),
    "a user's roles and mutes, for the chat list",
    index="user_chats-index",
)
READ_ROLES: Final = Pattern(
    "read_roles",
    "BatchGetItem",
    ("chat_memberships",),
    "roles and mutes that the index does not have yet",
    strong=True,
)
SHOW_CHATS: Final = Pattern(
    "show_chats",
    "BatchGetItem",
    ("chats",),
    "a user's groups with their heads, for the chat list",
)
LIST_USER_CHATS: Final = Pattern(
    "list_user_chats", "Query", ("delivery_state",), "a page of a user's chats", strong=True
)
SHOW_LISTED_CHATS: Final = Pattern(
    "show_listed_chats", "BatchGetItem", ("chats",), "chats of a tenant's list", strong=True
)
SHOW_LAST: Final = Pattern(
    "show_last",
    "BatchGetItem",
    ("messages",),
    "last messages, for the previews in the chat list",
    strong=True,
)
COUNT_UNREAD: Final = Pattern(
    "count_unread", "Query", ("messages",), "messages of others after the read mark", strong=True
)
READ_RECEIPT: Final = Pattern(
    "read_receipt", "GetItem", ("delivery_state",), "a user's receipt", strong=True
)
SHOW_RECEIPTS: Final = Pattern(
    "show_receipts", "BatchGetItem", ("delivery_state",), "the receipts of a chat's members"
)
MOVE_RECEIPT: Final = Pattern(
    "move_receipt", "UpdateItem", ("delivery_state",), "a user has received or read more"
)
MARK_CHAT: Final = Pattern(
    "mark_chat", "UpdateItem", ("delivery_state",), "a user marks a chat as unread, or hides it"
)
MAKE_OWN: Final = Pattern(
    "make_own",
    "UpdateItem",
    ("delivery_state",),
    "record whether a user wrote in a chat that others created",
)
READ_RECEIPTS: Final = Pattern(
    "read_receipts",
    "BatchGetItem",
    ("delivery_state",),
    "whether a user is still in chats of the list that changed meanwhile",
    strong=True,
)

# Delivery.

LIST_MUTES: Final = Pattern(
    "list_mutes", "Query", ("chat_memberships",), "members who muted a chat"
)

# Tenants.

FIND_TENANT: Final = Pattern("find_tenant", "GetItem", ("tenants",), "a tenant", strong=True)
CREATE_TENANT: Final = Pattern(
    "create_tenant",
    "TransactWriteItems",
    ("tenants", "listings"),
    "a tenant with its first signing key",
)
RENAME_TENANT: Final = Pattern("rename_tenant", "UpdateItem", ("tenants",), "a tenant's name")
FIND_TENANT_KEY: Final = Pattern(
    "find_tenant_key", "GetItem", ("tenants",), "identify a caller by a tenant key", strong=True
)
ADD_TENANT_KEY: Final = Pattern("add_tenant_key", "PutItem", ("tenants",), "a new tenant key")
REVOKE: Final = Pattern(
    "revoke",
    "TransactWriteItems",
    ("tenants", "users", "sessions", "keys", "listings"),
    "revoke a credential and record it in the feed",
    deletes=("tenants", "users", "listings"),
)
READ_REVOCATIONS: Final = Pattern(
    "read_revocations", "Query", ("tenants",), "recent revocations", strong=True
)
READ_ERASURES: Final = Pattern(
    "read_erasures", "Query", ("tenants",), "erasures that a device missed", strong=True
)
LIST_SIGNING_KEYS: Final = Pattern(
    "list_signing_keys", "Query", ("tenants",), "the keys that verify user tokens", strong=True
)
SCAN_SIGNING_KEYS: Final = Pattern(
    "scan_signing_keys", "Scan", ("tenants",), "a rotation looks for signing keys", strong=True
)
REWRAP_SIGNING_KEY: Final = Pattern(
    "rewrap_signing_key", "UpdateItem", ("tenants",), "a rotation re-encrypts a signing key"
)

# Users.

SHOW_USER: Final = Pattern("show_user", "GetItem", ("users",), "a profile")
FIND_USER: Final = Pattern(
    "find_user", "GetItem", ("users",), "a profile that the first, relaxed read missed", strong=True
)
CREATE_USER: Final = Pattern("create_user", "PutItem", ("users",), "a new user")
CHANGE_USER: Final = Pattern("change_user", "UpdateItem", ("users",), "a profile changes")
SHOW_USERS: Final = Pattern("show_users", "BatchGetItem", ("users",), "many profiles")
FIND_USERS: Final = Pattern(
    "find_users",
    "BatchGetItem",
    ("users",),
    "profiles that the first, relaxed read missed; whether users exist and are not deleted",
    strong=True,
)
KEEP_LAST_SEEN: Final = Pattern(
    "keep_last_seen", "UpdateItem", ("users",), "when a user was last online"
)
LIST_SHARED_CHATS: Final = Pattern(
    "list_shared_chats", "Query", ("delivery_state",), "the chats that a user shares with others"
)
LIST_PEERS: Final = Pattern(
    "list_peers", "Query", ("chat_memberships",), "users who share a chat with a user"
)

# Secrets.

READ_DATA_KEY: Final = Pattern(
    "read_data_key", "GetItem", ("keys",), "the key that encrypts an author's content", strong=True
)
ADD_DATA_KEY: Final = Pattern("add_data_key", "UpdateItem", ("keys",), "an author's new data key")
SCAN_DATA_KEYS: Final = Pattern(
    "scan_data_keys", "Scan", ("keys",), "a rotation looks for data keys", strong=True
)
REWRAP_DATA_KEY: Final = Pattern(
    "rewrap_data_key", "UpdateItem", ("keys",), "a rotation re-encrypts a data key"
)
READ_VALUE: Final = Pattern(
    "read_value", "GetItem", ("tenants",), "a value of the deployment", strong=True
)
KEEP_VALUE: Final = Pattern("keep_value", "PutItem", ("tenants",), "a value of the deployment")
LIST_MASTER_KEYS: Final = Pattern(
    "list_master_keys", "Query", ("tenants",), "which master keys wrap data keys", strong=True
)
CLOSE_MASTER_KEY: Final = Pattern(
    "close_master_key",
    "UpdateItem",
    ("tenants",),
    "a rotation marks an old master key before its last search",
)
STRIKE_OFF_MASTER_KEY: Final = Pattern(
    "strike_off_master_key", "DeleteItem", ("tenants",), "a master key wraps no data key any more"
)
KEEP_PROCESS: Final = Pattern(
    "keep_process", "PutItem", ("tenants",), "a process registers the formats that it knows"
)
LIST_PROCESSES: Final = Pattern(
    "list_processes", "Query", ("tenants",), "which formats the processes know", strong=True
)
FORGET_PROCESS: Final = Pattern("forget_process", "DeleteItem", ("tenants",), "a process has ended")
ALLOW_FORMATS: Final = Pattern(
    "allow_formats", "UpdateItem", ("tenants",), "all processes may write a new format"
)

# Export and import.

SCAN_TENANTS: Final = Pattern(
    "scan_tenants",
    "Scan",
    ("tenants",),
    "an export lists tenants; checks that a store is empty",
    strong=True,
)
SCAN_USERS: Final = Pattern(
    "scan_users",
    "Scan",
    ("users",),
    "an export lists users; checks that a store is empty",
    strong=True,
)
SCAN_AUTHORS: Final = Pattern(
    "scan_authors",
    "Scan",
    ("keys",),
    "an export lists data keys; checks that a store is empty",
    strong=True,
)
SCAN_REQUESTS: Final = Pattern(
    "scan_requests", "Scan", ("idempotency_keys",), "an export lists request keys", strong=True
)
SCAN_CHATS: Final = Pattern(
    "scan_chats",
    "Scan",
    ("chats",),
    "an export lists chats; checks that a store is empty",
    strong=True,
)
EXPORT_RECEIPTS: Final = Pattern(
    "export_receipts", "BatchGetItem", ("delivery_state",), "receipts of a chat", strong=True
)
EXPORT_SEND_KEYS: Final = Pattern(
    "export_send_keys", "Query", ("idempotency_keys",), "claimed keys of a chat", strong=True
)
IMPORT_TENANT: Final = Pattern(
    "import_tenant", "PutItem", ("tenants",), "an import writes tenants and values"
)
FINISH_IMPORT: Final = Pattern(
    "finish_import", "DeleteItem", ("tenants",), "an import is finished, servers may start"
)
IMPORT_USER: Final = Pattern("import_user", "PutItem", ("users",), "an import writes users")
IMPORT_DATA_KEY: Final = Pattern(
    "import_data_key", "UpdateItem", ("keys",), "an import writes wrapped data keys"
)
IMPORT_CHAT: Final = Pattern(
    "import_chat", "PutItem", ("chats",), "an import writes chats and pairs"
)
IMPORT_MEMBER: Final = Pattern(
    "import_member", "PutItem", ("chat_memberships",), "an import writes memberships"
)
IMPORT_RECEIPT: Final = Pattern(
    "import_receipt", "PutItem", ("delivery_state",), "an import writes receipts"
)
IMPORT_ENTRY: Final = Pattern("import_entry", "PutItem", ("messages",), "an import writes entries")
IMPORT_BODY: Final = Pattern("import_body", "PutItem", ("bodies",), "an import writes contents")
IMPORT_REACTION: Final = Pattern(
    "import_reaction", "PutItem", ("reactions",), "an import writes reactions"
)
IMPORT_KEY: Final = Pattern(
    "import_key", "PutItem", ("idempotency_keys",), "an import writes claimed keys"
)


def declared() -> tuple[Pattern, ...]:
    """Return all patterns in the order of their declaration, those of this file first."""
    of_chats = (push_patterns, deletion_patterns, head_patterns, link_patterns)
    of_inboxes = (inbox_patterns, due_patterns, webhook_patterns)
    others = (*of_inboxes, identity_patterns, *of_chats, repair_patterns)
    return of_module(globals().values()) + tuple(
        pattern for module in others for pattern in of_module(vars(module).values())
    )
