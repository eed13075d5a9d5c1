# SPDX-License-Identifier: Apache-2.0
"""All limits of the server, each with its unit in its name.

`tests/unit/test_limits.py` checks that they are consistent with each other.
"""

from typing import Final

KIB: Final = 1024
SECOND_MS: Final = 1_000
DAY_MS: Final = 24 * 60 * 60 * SECOND_MS

# Content.
CONTENT_BYTES_MAX: Final = 4 * KIB
CONTENT_TYPE_CHARS_MAX: Final = 100
TTL_SECONDS_MAX: Final = 31_536_000
PREVIEW_CHARS_MAX: Final = 120
NAME_CHARS_MAX: Final = 200
NAME_MARKS_MAX: Final = 8
"""Combining marks that may follow each other in a name: more of them would cover the text
nearby."""

# Chats.
GROUP_MEMBERS_MAX: Final = 1_000
USER_CHATS_MAX: Final = 1_000
"""Chats that a user has created or has written in. A user with this many cannot create more."""
OTHERS_CHATS_MAX: Final = 1_000
"""Chats that others created and the user has never written in. A user with this many cannot be
added to another group."""
OTHERS_DIRECT_CHATS_MAX: Final = 1_200
"""If a user has this many chats that others created and in which the user has never written, nobody
can start a direct chat with the user either."""
USER_DAY_STRANGERS_MAX: Final = 1_000
"""Strangers that a user may add to chats in a day. A stranger added to three groups counts
thrice."""
USER_INVITES_MAX: Final = 100
"""Open invitations that a user may have."""
INVITER_INVITES_MAX: Final = 10
"""Invitations that a user may have from one inviter, open or recently declined. Without this limit,
one inviter could use up `USER_INVITES_MAX`, or invite the same user endlessly."""
INVITE_MS: Final = 30 * DAY_MS
INVITE_DECLINED_MS: Final = 7 * DAY_MS
"""Time after declining during which nobody can invite the user into the same chat."""
SMALL_CHAT_MEMBERS_MAX: Final = 64
"""Members of the largest chat that has receipts, typing, presence and message status."""
MEMBERS_PER_ENTRY_MAX: Final = 30
"""Users in one membership entry: three rows each, and a DynamoDB transaction has at most 100."""
LISTED_MEMBERS_MAX: Final = 10
LEAVE_CHATS_MAX: Final = 100
"""Chats that a user can leave with one request."""
REACTION_EMOJI_MAX: Final = 20
EMOJI_BYTES_MAX: Final = 64
PINS_MAX: Final = 50
MENTIONS_MAX: Final = 50
MENTIONS_MS: Final = 90 * DAY_MS
REPLY_COUNT_MAX: Final = 1_000
USER_LARGE_GROUPS_WAITING_MAX: Final = 100
"""Large groups of one user that may wait to be created; one or two are created at a time."""
LARGE_GROUPS_WAITING_MAX: Final = 1_000

# Pages.
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 100
PAGE_FRAME_BYTES_MAX: Final = 48 * KIB
UNREAD_ENTRIES_MAX: Final = 1_000
"""Entries after the read mark that are read to count unread messages. If there are more, the unread
count is an upper bound."""
LISTED_UNREAD_ENTRIES_MIN: Final = 100
"""A chat with at most this many entries after the read mark has an exact count in every list."""
LIST_UNREAD_ENTRIES_MAX: Final = 10_000
"""Entries that are read for one page of the chat list, to count unread messages in chats with more
than `LISTED_UNREAD_ENTRIES_MIN` entries after the read mark."""

# Profiles.
AVATAR_URL_CHARS_MAX: Final = 1_024
METADATA_BYTES_MAX: Final = 2 * KIB
EMAIL_CHARS_MAX: Final = 254
PROFILES_MAX: Final = 100
"""Profiles in one request."""
LISTED_OTHERS_MAX: Final = 3
"""Other members that a chat list shows with name and avatar; a single chat shows all that it
lists."""
PROFILE_FRAME_MS: Final = 10 * SECOND_MS
"""Time for which changes of a profile are collected before they are sent."""
PROFILE_FRAME_CONNECTIONS_MAX: Final = 1_000

# Idempotency.
SEND_KEY_MS: Final = 7 * DAY_MS
REQUEST_KEY_MS: Final = DAY_MS
REQUEST_KEY_CHARS_MAX: Final = 255

# The appender.
SLOT_ATTEMPTS_MAX: Final = 8
TAIL_ENTRIES_MAX: Final = 256
LEARNT_MS_MAX: Final = 2 * SECOND_MS
"""Age up to which a gateway delivers a message of another process that it reads from the log."""
RUN_ENTRIES_MAX: Final = 256
"""Entries of one chat that are appended together in one write."""
CHAT_REQUESTS_WAITING_MAX: Final = 4_096
"""Requests to write that may wait for one chat, if the engine writes in batches; more are refused
as retryable. An engine that writes one by one has a smaller limit of its own."""
CACHED_CHATS_MAX: Final = 20_000
CACHED_MEMBERS_MAX: Final = 500_000
CACHED_DATA_KEYS_MAX: Final = 50_000
CACHED_PROFILES_MAX: Final = 50_000
CACHED_PROFILE_MS: Final = 60 * SECOND_MS
"""Age up to which a chat may show an earlier name or avatar."""
REMEMBERED_SENDS_MAX: Final = 50_000
"""Number of recent messages, over all chats, that an appender caches to recognise repeats whose
idempotency key was not claimed."""
PREPARED_AT_ONCE: Final = 16
"""Requests of one chat whose authors' keys are read together."""
SHORT_SEARCH_ENTRIES: Final = 200
LONG_SEARCHES_BURST: Final = 30
"""Number of long searches for a repeat, through more than `SHORT_SEARCH_ENTRIES`, that a process
makes at once in one chat. After that, it makes one per second."""

# The socket.
FRAME_BYTES_MAX: Final = 64 * KIB
HELLO_BYTES_MAX: Final = 128 * KIB
HELLO_MS_MAX: Final = 10 * SECOND_MS
HEARTBEAT_MS: Final = 20 * SECOND_MS
SILENCE_MS_MAX: Final = 90 * SECOND_MS
"""Time without a sign of life after which a connection is closed. Browsers delay the timers of
hidden pages by up to a minute, so three missed heartbeats prove nothing."""
PROBE_MS: Final = 30 * SECOND_MS
"""Time without a sign of life after which the server sends a ping of the WebSocket protocol, and
then another one after each such time. Browsers answer this ping without the page."""
EARLY_FRAMES_MAX: Final = 32
"""Frames that a client may send between its hello and the server's answer."""
BAD_FRAMES_MAX: Final = 3
"""Malformed frames in a row after which the connection is closed."""
WINDOW_ENTRIES: Final = 1_000
WINDOW_STALLED_MS_MAX: Final = 30 * SECOND_MS
CATCH_UP_CHAT_ENTRIES_MAX: Final = 500
CATCH_UP_HELLO_ENTRIES_MAX: Final = 5_000
HEADS_CHATS_MAX: Final = 1_000
"""Chats in one `heads` frame."""
HEADS_MS: Final = 1 * SECOND_MS
"""Time for which new heads of chats are collected, if a connection does not follow them."""
ERASURES_FRAME_MAX: Final = 500
"""Erased authors in one frame."""
ERASURES_MAX: Final = 5_000
"""Erased authors that a device gets at hello. If there are more, it drops all content."""
ERASURES_CACHED_MAX: Final = 50_000
"""Erased authors that a gateway caches, over all tenants."""
OUTBOX_PAUSE_BYTES: Final = 64 * KIB
"""Unsent bytes above which a socket gets no further entries until it drains. The entries are read
from the log later."""
OUTBOX_BYTES_MAX: Final = 1_024 * KIB
"""Unsent bytes above which the connection is closed, because the client sends requests but does not
read the answers."""
CONNECTION_REQUESTS_MAX: Final = 1_000
"""Sends and fetches of one connection that may wait for an answer."""
USER_CONNECTIONS_MAX: Final = 20
IDLE_MS: Final = 30 * SECOND_MS
"""Time after which a connection on which the client asked for nothing is idle."""
TYPING_MS_MIN: Final = 3 * SECOND_MS
RECEIPT_FRAME_MS: Final = 1 * SECOND_MS
LARGE_CHAT_RECEIPT_MS: Final = 5 * SECOND_MS
PRESENCE_TICK_MS: Final = 1 * SECOND_MS
PRESENCE_PEERS_MAX: Final = 1_000
"""Users with whom a user exchanges presence: members of the user's oldest small chats."""
PRESENCE_SLICE_PEERS: Final = 100
"""Users whose presence is sent in one step to a connection that has just become live."""

# Requests.
REQUEST_BODY_BYTES_MAX: Final = 256 * KIB
TOKEN_BYTES_MAX: Final = 8 * KIB
TOKEN_SECONDS_DEFAULT: Final = 3_600
TOKEN_SECONDS_MAX: Final = 86_400
TOKEN_LEEWAY_SECONDS: Final = 10

# Connections.
PIPELINED_REQUESTS_MAX: Final = 8
"""Requests of one connection that may wait for the answer to an earlier request."""
HEAD_BYTES_MAX: Final = 32 * KIB
TRAILER_BYTES_MAX: Final = 8 * KIB
"""Size of the trailers and chunk extensions of one request together."""
REQUEST_MS_MAX: Final = 20 * SECOND_MS
"""Time within which a request must arrive completely."""
UNREAD_ANSWER_MS_MAX: Final = 30 * SECOND_MS
"""Time after which a client is disconnected if it reads nothing of the answer."""
KEEP_ALIVE_MS: Final = 75 * SECOND_MS
SCARCE_KEEP_ALIVE_MS: Final = 5 * SECOND_MS
"""Keep-alive time of idle connections while more than three quarters of all connections are
used."""
OWN_DESCRIPTORS: Final = 64
"""File descriptors reserved for files and for connections to the engines."""
ADDRESS_HTTP_CONNECTIONS_MAX: Final = 256
UNDECIDED_CONNECTIONS_MAX: Final = 2_000
"""Connections whose first bytes have not shown yet whether they are WebSockets or HTTP."""
RESERVED_CONNECTIONS_MAX: Final = 256
"""Connections reserved for health checks and the root key."""
KEPT_HTTP_CONNECTIONS_MAX: Final = 1_024
"""Connections that are reserved for HTTP, so that WebSockets cannot use up all of them."""

# Logging in.
CODE_DIGITS: Final = 6
CODE_MS: Final = 10 * 60 * SECOND_MS
CODE_ATTEMPTS_MAX: Final = 5
CODE_ATTEMPTS_ELSEWHERE_MAX: Final = 3
"""Attempts that may come from addresses other than the one that requested the code."""
CODES_MS: Final = 10 * 60 * SECOND_MS
NUMBER_CODES_MAX: Final = 3
"""Codes from a tenant to one number within `CODES_MS`."""
NUMBER_DAY_CODES_MAX: Final = 10
NUMBER_ALL_TENANTS_DAY_CODES_MAX: Final = 30
"""Codes to one number from all tenants together. Tenants with a user who has the number are not
counted."""
PREFIX_DAY_CODES_MAX: Final = 200
"""Codes per day to numbers that differ only in their last four digits."""
DAY_CODES_DEFAULT: Final = 10_000
"""Codes that a deployment sends in a day by default."""
SHARE_DAY_CODES_MIN: Final = 1_000
"""Daily cap per country and per tenant: half of the deployment's cap, but at least this many."""
KNOWN_NUMBERS_RESERVE_PARTS: Final = 5
"""One in this many codes of each daily cap is reserved for numbers that belong to a user of the
tenant."""
ADDRESS_CODES_MAX: Final = 60
"""Codes requested from one address within `CODES_MS`."""
ADDRESS_DAY_CODES_MAX: Final = 300
CODES_WAITING_MAX: Final = 1_000
"""Codes that may wait in a process for the SMS provider; more are refused as retryable."""
CODE_SENDERS: Final = 16
"""Codes that a process sends in parallel."""
CODES_CLOSE_SECONDS: Final = 6
"""Time for which a stopping process still sends waiting codes."""
SMS_FAILURES_MAX: Final = 5
"""Failed texts in a row after which the provider is considered down."""
SMS_DOWN_MS: Final = 10 * SECOND_MS
"""Time for which the provider is considered down. Requests for codes are refused as retryable
during this time."""
ACCESS_TOKEN_SECONDS: Final = 900
"""Lifetime of a session's access tokens. Tidings itself refuses a token seconds after its session
ends; other services that verify tokens accept it until it expires."""
SESSION_MS: Final = 60 * DAY_MS
"""Lifetime of a session without a refresh."""
REFRESH_GRACE_MS: Final = 30 * SECOND_MS
"""Time within which a client that lost the answer to a refresh can repeat the request."""
USER_SESSIONS_MAX: Final = 50
"""Sessions of a user; one more login ends the oldest session."""
SIGNING_KEYS_MAX: Final = 2
ISSUER_KEYS_MAX: Final = 10
ISSUER_BYTES_MAX: Final = 16 * KIB
CONTACTS_MAX: Final = 100
"""Phone numbers in one look-up."""
USER_DAY_CONTACTS_MAX: Final = 2_000
"""Phone numbers that a user may look up in a day."""
REVOKED_SECONDS_MAX: Final = 5
"""Longest time for which any process still accepts a revoked credential."""
SEAL_SECONDS_MAX: Final = 3
"""Time for which a process may encrypt with a cached data key after the last check that the key is
valid."""
SEALED_WRITE_SECONDS_MAX: Final = 1
"""Time that a write of encrypted content may take. After a slower write, the key is checked
again."""
ERASING_SECONDS: Final = 4.2
"""Time that an erasure waits if other processes may have cached the key. After this time, no
process can use the key any more."""

# Rate limits: a sustained rate per second, and a burst after a pause. Each request takes as many
# tokens as it costs, see `actions.rate_limits`.
USER_REQUESTS_PER_SECOND: Final = 50
USER_REQUESTS_BURST: Final = 2_000
TENANT_KEY_REQUESTS_PER_SECOND: Final = 2_000
TENANT_KEY_REQUESTS_BURST: Final = 20_000
ADDRESS_REQUESTS_PER_SECOND: Final = 500
ADDRESS_REQUESTS_BURST: Final = 5_000
ADDRESS_LOGINS_PER_SECOND: Final = 1
ADDRESS_LOGINS_BURST: Final = 100
ADDRESS_WRONG_CREDENTIALS_PER_SECOND: Final = 1
ADDRESS_WRONG_CREDENTIALS_BURST: Final = 60
SITE_ADDRESSES: Final = 5
"""An IPv6 /48 has the rate limits of this many addresses, because it may belong to many customers
of a provider, or to one person with 65,536 networks."""
UNKNOWN_WRONG_CREDENTIALS_PER_SECOND: Final = 10
UNKNOWN_WRONG_CREDENTIALS_BURST: Final = 1_000
"""All clients without a known address share this bucket: those on this machine itself, and those
behind a proxy that is not configured."""
USER_SENDS_PER_SECOND: Final = 50
USER_SENDS_BURST: Final = 2_000
SENDS_REFUSED_MAX: Final = 20
"""Sends in a row that exceed the rate limit, after which the connection is closed."""
CONNECTION_FRAMES_PER_SECOND: Final = 200
CONNECTION_FRAMES_BURST: Final = 5_000
USER_CONNECTS_PER_SECOND: Final = 5
USER_CONNECTS_BURST: Final = 200
ADDRESS_CONNECTS_PER_SECOND: Final = 20
ADDRESS_CONNECTS_BURST: Final = 300
ADDRESS_SOCKETS_MAX: Final = 2_000
HANDSHAKES_PER_SECOND: Final = 500
HANDSHAKES_BURST: Final = 2_000
PAGE_ROWS_PER_TOKEN: Final = 50
CHAT_LIST_ROWS_PER_TOKEN: Final = 5
RECEIPTS_PER_TOKEN: Final = 10
GROUP_MEMBERS_PER_TOKEN: Final = 5
LOOK_UPS_PER_TOKEN: Final = 10
MEMBER_LIST_TOKENS: Final = 4
"""Cost of listing a chat's members. The list has no pages; the cost fits a medium-sized group."""
BROADCAST_TOKENS: Final = 10
BUCKETS_MAX: Final = 100_000
"""Rate-limit buckets that a process caches; an evicted bucket starts full again."""

# The inbox.
HELLO_INBOXES_MAX: Final = 20
"""Inboxes whose counts a device may request with its hello."""
INBOX_NEWS_MAX: Final = 100
"""Notifications after which the counts of an inbox stop at hello."""
KEEP_DAYS_MAX: Final = 90
"""Days for which notifications are kept, unless the tenant or the inbox sets fewer."""
USER_COPIES_MAX: Final = 1_000
"""Copies that a user sees in an inbox; older copies are hidden."""
INBOX_BROADCASTS_MAX: Final = 1_000
"""Broadcasts that users see in an inbox; older broadcasts are hidden."""
INBOX_LOG_ENTRIES_MAX: Final = 100_000
"""Entries of an inbox's log that a process reads, from the end, if the log is not in its cache."""
INBOX_VIEW_BYTES_MAX: Final = 64 * KIB * KIB
"""Size of a process's cache for the logs of all inboxes."""
TITLE_BYTES_MAX: Final = 200
BODY_BYTES_MAX: Final = 4 * KIB
LINK_BYTES_MAX: Final = 2 * KIB
EXTRAS_BYTES_MAX: Final = 4 * KIB
"""Size of all fields of a message except title, body and link, as JSON."""
SENDER_CHARS_MAX: Final = 200
HOST_SYSTEM_ID_CHARS_MAX: Final = 255
LABEL_CHARS_MAX: Final = 200
AUDIENCE_USERS_MAX: Final = 100_000
JOB_USERS_MAX: Final = 100
POST_BODY_BYTES_MAX: Final = 8 * KIB * KIB
BODY_PARTS_MAX: Final = AUDIENCE_USERS_MAX + 20_000
"""Commas and opening brackets in a request body, including those inside strings. Their number
limits the work of parsing better than the number of bytes does."""
TENANT_LARGE_BODIES_MAX: Final = 2
"""Request bodies above `REQUEST_BODY_BYTES_MAX` that a process reads in parallel for one tenant."""
LARGE_BODIES_MAX: Final = 8
LARGE_BODIES_WAITING_MAX: Final = 8
"""Large request bodies that may wait, for each tenant."""
LARGE_BODY_WAIT_MS_MAX: Final = 5 * SECOND_MS
READ_IDS_MAX: Final = 100
DESCRIPTION_CHARS_MAX: Final = 2_000
SCHEMA_VERSION_CHARS_MAX: Final = 64
CATEGORIES_MAX: Final = 100
MESSAGE_SCHEMA_BYTES_MAX: Final = 8 * KIB
MESSAGE_SCHEMA_PATTERNS_MAX: Final = 10
MESSAGE_SCHEMA_CHECKS_MAX: Final = 100
"""Checks that a message schema may apply to one value, as `checks_per_value` counts them."""
EXPLAINED_CHECKS_MAX: Final = 250
"""If a schema with alternatives needs more checks than this, a refusal does not explain the
reason."""
SCHEMA_CHECK_SECONDS_MAX: Final = 2
"""CPU time that one check of a message may use, in a process of its own."""
SCHEMA_CHECK_WAIT_SECONDS_MAX: Final = 30
SCHEMA_CHECKS_WAITING_MAX: Final = 8
PATTERN_BYTES_MAX: Final = 64 * KIB
"""Memory that one regular expression of a schema may need when compiled."""
TENANT_SETTINGS_BYTES_MAX: Final = 16 * KIB
OPEN_JSON_DEPTH_MAX: Final = 32
INBOX_CONFIG_AGE_MS: Final = 1 * SECOND_MS
"""Greatest age at which a process still uses a cached inbox configuration."""
CACHED_INBOXES_MAX: Final = 10_000
CACHED_INBOX_LISTS_MAX: Final = 100
"""Cached pages of inbox lists. A page has up to 100 inboxes, each with a description of up to 2,000
characters."""
CACHED_JOINS_MAX: Final = 100_000

# The audit trail.
AUDIT_MS: Final = 400 * DAY_MS
AUDIT_ACTS_MAX: Final = 25
"""Tokens that one audit entry may record, so that the entry stays small and takes one write."""

# The sweeper.
SWEEP_BATCH_ROWS: Final = 200
SWEEP_TICK_MS: Final = 1 * SECOND_MS

# Deleting chats.
DELETE_STEP_ROWS: Final = 100
"""Rows that are deleted or emptied in one transaction of the embedded store."""
DELETIONS_AT_ONCE: Final = 100
"""Chats that are being deleted at the same time, in turns; further chats wait."""
DELETION_LEASE_MS: Final = 60 * SECOND_MS
DELETION_DELIVERY_MS, DELETION_DELIVERY_MS_MAX = 2 * SECOND_MS, 30 * SECOND_MS
"""Members stay for so long after the end of a chat, if other processes deliver its last entry."""

# Exports of a person.
EXPORT_KEPT_MS: Final = 7 * DAY_MS
EXPORT_PART_CHARS_MAX: Final = 64 * KIB
"""Characters of a part; a DynamoDB item has at most 400 KB, and a character up to 4 bytes."""
EXPORT_STEP_PAGES: Final = 10
"""Pages of one chat, or of the audit trail, that a step reads."""
EXPORT_STEP_CHATS: Final = 10

# Jobs of tenants.
USER_SETTLE_MS: Final = 2 * SECOND_MS
"""Time after the deletion of a user or tenant in which earlier requests may still add items, in a
deployment of one process."""
USER_SETTLE_MANY_MS: Final = 12 * SECOND_MS
"""Time after the deletion of a user or tenant in which earlier requests may still add items, in a
deployment of several processes. They learn of the deletion within five seconds."""
