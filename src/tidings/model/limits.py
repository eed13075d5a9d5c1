# SPDX-License-Identifier: Apache-2.0
"""Every limit of the product, with its unit in its name and its relations asserted."""

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
"""Combining marks in a row within a name: more of them are drawn over what is around it."""

# Chats.
GROUP_MEMBERS_MAX: Final = 1_000
USER_CHATS_MAX: Final = 1_000
"""Chats that a user made or has written in; who has so many makes no more."""
OTHERS_CHATS_MAX: Final = 1_000
"""Chats of others, in which a user has never written: beyond it nobody adds the user to a group."""
OTHERS_DIRECT_CHATS_MAX: Final = 1_200
"""Beyond this nobody begins a direct chat with the user either."""
USER_DAY_STRANGERS_MAX: Final = 1_000
"""Strangers that a user brings into chats in a day: who is added to three groups counts thrice."""
USER_INVITES_MAX: Final = 100
"""Invitations that wait for a user's answer."""
INVITER_INVITES_MAX: Final = 10
"""Those of them that come from one user, with those that were declined not long ago: a single
stranger leaves room for others, and does not ask without end."""
INVITE_MS: Final = 30 * DAY_MS
INVITE_DECLINED_MS: Final = 7 * DAY_MS
"""How long nobody asks a user again into a chat after the user declined."""
SMALL_CHAT_MEMBERS_MAX: Final = 64
"""Receipts, typing, presence and computed status exist only up to this size."""
MEMBERS_PER_ENTRY_MAX: Final = 30
"""One membership transaction touches three rows a person; the scale-out store takes 100 items."""
LISTED_MEMBERS_MAX: Final = 10
LEAVE_CHATS_MAX: Final = 100
"""Chats that are left with one request."""
REACTION_EMOJI_MAX: Final = 20
EMOJI_BYTES_MAX: Final = 64
USER_LARGE_GROUPS_WAITING_MAX: Final = 100
"""Large groups of one user that may wait to be made; they are made one or two at a time."""
LARGE_GROUPS_WAITING_MAX: Final = 1_000

# Pages.
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 100
PAGE_FRAME_BYTES_MAX: Final = 48 * KIB
UNREAD_ENTRIES_MAX: Final = 1_000
"""Beyond this many entries unread is an upper bound instead of a count."""
LISTED_UNREAD_ENTRIES_MIN: Final = 100
"""Up to so many entries unread is a count in every chat of a list."""
LIST_UNREAD_ENTRIES_MAX: Final = 10_000
"""So many entries a page of a list looks through in chats with more than that."""

# Idempotency.
SEND_KEY_MS: Final = 7 * DAY_MS
REQUEST_KEY_MS: Final = DAY_MS
REQUEST_KEY_CHARS_MAX: Final = 255

# The appender.
SLOT_ATTEMPTS_MAX: Final = 8
TAIL_ENTRIES_MAX: Final = 256
RUN_ENTRIES_MAX: Final = 256
"""How many waiting proposals of one chat go to the store at once."""
LANE_PROPOSALS_MAX: Final = 4_096
"""How many proposals of one chat may wait where they go in batches; more are refused as retryable.
An engine that takes them one by one has a smaller number of its own."""
CACHED_CHATS_MAX: Final = 20_000
CACHED_MEMBERS_MAX: Final = 500_000
CACHED_DATA_KEYS_MAX: Final = 50_000

# The socket.
FRAME_BYTES_MAX: Final = 64 * KIB
HELLO_MS_MAX: Final = 10 * SECOND_MS
HEARTBEAT_MS: Final = 20 * SECOND_MS
HEARTBEATS_MISSED_MAX: Final = 3
EARLY_FRAMES_MAX: Final = 32
"""Frames that may follow hello before it is answered."""
BAD_FRAMES_MAX: Final = 3
"""A connection whose third frame in a row makes no sense is closed."""
WINDOW_ENTRIES: Final = 1_000
WINDOW_STALLED_MS_MAX: Final = 30 * SECOND_MS
CATCH_UP_CHAT_ENTRIES_MAX: Final = 500
CATCH_UP_HELLO_ENTRIES_MAX: Final = 5_000
OUTBOX_PAUSE_BYTES: Final = 64 * KIB
"""Above this the socket gets no further entries until it has drained; they wait in the log."""
OUTBOX_BYTES_MAX: Final = 1_024 * KIB
"""Above this the client is cut off: it does not read what it asked for."""
CONNECTION_REQUESTS_MAX: Final = 1_000
"""Sends and fetches of one connection that may wait for their answers."""
USER_CONNECTIONS_MAX: Final = 20
TYPING_MS_MIN: Final = 3 * SECOND_MS
RECEIPT_FRAME_MS: Final = 1 * SECOND_MS
LARGE_CHAT_RECEIPT_MS: Final = 5 * SECOND_MS
PRESENCE_TICK_MS: Final = 1 * SECOND_MS
PRESENCE_PEERS_MAX: Final = 1_000
"""Of those who share a small chat with a user, so many count: the ones from the oldest chats."""
PRESENCE_SLICE_PEERS: Final = 100
"""So many are told of at once to a device that has just become live."""

# Requests.
REQUEST_BODY_BYTES_MAX: Final = 256 * KIB
TOKEN_BYTES_MAX: Final = 8 * KIB
TOKEN_SECONDS_DEFAULT: Final = 3_600
TOKEN_SECONDS_MAX: Final = 86_400
TOKEN_LEEWAY_SECONDS: Final = 10

# Connections.
PIPELINED_REQUESTS_MAX: Final = 8
"""Requests of one connection that may wait for the answer to an earlier one."""
HEAD_BYTES_MAX: Final = 32 * KIB
TRAILER_BYTES_MAX: Final = 8 * KIB
"""Trailers and chunk extensions of one request together."""
REQUEST_MS_MAX: Final = 20 * SECOND_MS
"""A request has to arrive whole within this time."""
UNREAD_ANSWER_MS_MAX: Final = 30 * SECOND_MS
"""A client that takes no byte of its answer for this long is cut off."""
KEEP_ALIVE_MS: Final = 75 * SECOND_MS
SCARCE_KEEP_ALIVE_MS: Final = 5 * SECOND_MS
"""How long an idle connection is kept while three quarters of all connections are taken."""
OWN_DESCRIPTORS: Final = 64
"""File descriptors that are kept for files and for the connections to the engines."""
ADDRESS_HTTP_CONNECTIONS_MAX: Final = 256
UNDECIDED_CONNECTIONS_MAX: Final = 2_000
"""Connections that have not yet said what they want."""
RESERVED_CONNECTIONS_MAX: Final = 256
"""Kept for health checks and the root key when everything else is taken."""
KEPT_HTTP_CONNECTIONS_MAX: Final = 1_024
"""So many connections sockets leave to HTTP."""

# Logging in.
CODE_DIGITS: Final = 6
CODE_MS: Final = 10 * 60 * SECOND_MS
CODE_ATTEMPTS_MAX: Final = 5
CODE_ATTEMPTS_ELSEWHERE_MAX: Final = 3
"""Of these, from addresses other than the one that asked for the code, all of them together."""
CODES_MS: Final = 10 * 60 * SECOND_MS
NUMBER_CODES_MAX: Final = 3
"""Codes to one number of a tenant within `CODES_MS`."""
NUMBER_DAY_CODES_MAX: Final = 10
NUMBER_ALL_TENANTS_DAY_CODES_MAX: Final = 30
"""Codes to one number for all tenants together, apart from those whose user has the number."""
PREFIX_DAY_CODES_MAX: Final = 200
"""Codes to numbers that differ in nothing but their last four digits."""
DAY_CODES_DEFAULT: Final = 10_000
"""Codes that a deployment sends in a day, unless a setting says otherwise."""
SHARE_DAY_CODES_MIN: Final = 1_000
"""To numbers of one country, and for one tenant, half as many are sent, or this many if it is
more."""
KNOWN_NUMBERS_RESERVE_PARTS: Final = 5
"""Of what a deployment and a tenant may send, one part in this many is kept for numbers that are a
user's of the tenant."""
ADDRESS_CODES_MAX: Final = 60
"""Codes that are asked for from one address within `CODES_MS`."""
ADDRESS_DAY_CODES_MAX: Final = 300
CODES_WAITING_MAX: Final = 1_000
"""Codes of a process that wait for the provider of texts; more are refused as retryable."""
CODE_SENDERS: Final = 16
"""Codes that a process sends at once."""
CODES_CLOSE_SECONDS: Final = 6
"""How long a process that stops goes on sending codes that were asked for."""
SMS_FAILURES_MAX: Final = 5
"""After this many texts in a row that the provider did not take, it is down."""
SMS_DOWN_MS: Final = 10 * SECOND_MS
"""How long no text is tried then, and whoever asks is told to wait."""
ACCESS_TOKEN_SECONDS: Final = 900
"""How long the tokens of a session count. A session that ended is known to all in seconds; this is
for whoever cannot ask."""
SESSION_MS: Final = 60 * DAY_MS
"""How long a session lives without being refreshed."""
REFRESH_GRACE_MS: Final = 30 * SECOND_MS
"""So long the answer to a rotation can be had again, by who lost it."""
USER_SESSIONS_MAX: Final = 50
"""When a user logs in once more, the oldest has to go."""
SIGNING_KEYS_MAX: Final = 2
ISSUER_KEYS_MAX: Final = 10
ISSUER_BYTES_MAX: Final = 16 * KIB
CONTACTS_MAX: Final = 100
"""Phone numbers in one look-up."""
USER_DAY_CONTACTS_MAX: Final = 2_000
"""Phone numbers that a user looks up in a day."""
REVOKED_SECONDS_MAX: Final = 5
"""What ended counts no longer than this, anywhere."""
SEAL_SECONDS_MAX: Final = 3
"""So long after it was last known to count, a key in memory may seal something."""
SEALED_WRITE_SECONDS_MAX: Final = 1
"""What was sealed is known to be in the store after this time, or the key is looked at again."""
ERASING_SECONDS: Final = 4.2
"""So long an erasure waits, where other processes may hold the key: then none can use it."""

# Rates: so many a second for as long as one likes, and so many at once after a rest.
# Requests take as many tokens as they cost: see costs.py.
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
"""What comes from one /48 of IPv6 counts as so many addresses: one provider's customers may be in
it, or one person with 65,536 networks."""
UNKNOWN_WRONG_CREDENTIALS_PER_SECOND: Final = 10
UNKNOWN_WRONG_CREDENTIALS_BURST: Final = 1_000
"""From this machine itself, or through a proxy that nobody named: of all of them together."""
USER_SENDS_PER_SECOND: Final = 50
USER_SENDS_BURST: Final = 2_000
SENDS_REFUSED_MAX: Final = 20
"""So many sends in a row may be too fast before the connection has to go."""
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
GROUP_MEMBERS_PER_TOKEN: Final = 5
LOOK_UPS_PER_TOKEN: Final = 10
MEMBER_LIST_TOKENS: Final = 4
"""A list of members is not asked for in parts: this is for one of a middling group."""
BROADCAST_TOKENS: Final = 10
BUCKETS_MAX: Final = 100_000
"""What a process remembers of who did how much; who is forgotten starts afresh."""

# The inbox.
KEEP_DAYS_MAX: Final = 90
"""How long notifications are kept, unless tenant or inbox say fewer days."""
USER_COPIES_MAX: Final = 1_000
"""Of a user's copies in an inbox only the newest count."""
INBOX_BROADCASTS_MAX: Final = 1_000
"""Likewise of what everyone was told in it."""
INBOX_LOG_ENTRIES_MAX: Final = 100_000
"""How far back into an inbox's log whoever does not know it reads for what was taken back."""
INBOX_VIEW_BYTES_MAX: Final = 64 * KIB * KIB
"""How much of all inboxes' logs a process remembers."""
TITLE_BYTES_MAX: Final = 200
BODY_BYTES_MAX: Final = 4 * KIB
LINK_BYTES_MAX: Final = 2 * KIB
EXTRAS_BYTES_MAX: Final = 4 * KIB
"""What a message may hold besides title, body and link, as JSON."""
SENDER_CHARS_MAX: Final = 200
HOST_SYSTEM_ID_CHARS_MAX: Final = 255
LABEL_CHARS_MAX: Final = 200
AUDIENCE_USERS_MAX: Final = 100_000
JOB_USERS_MAX: Final = 100
POST_BODY_BYTES_MAX: Final = 8 * KIB * KIB
BODY_PARTS_MAX: Final = AUDIENCE_USERS_MAX + 20_000
"""Commas and opening brackets of a body: what reading it takes grows with them, not with its bytes.
Those that stand in texts count as well."""
TENANT_LARGE_BODIES_MAX: Final = 2
"""Bodies above `REQUEST_BODY_BYTES_MAX` that a process reads at once for one tenant."""
LARGE_BODIES_MAX: Final = 8
LARGE_BODIES_WAITING_MAX: Final = 8
"""For each tenant."""
LARGE_BODY_WAIT_MS_MAX: Final = 5 * SECOND_MS
READ_IDS_MAX: Final = 100
DESCRIPTION_CHARS_MAX: Final = 2_000
SCHEMA_VERSION_CHARS_MAX: Final = 64
CATEGORIES_MAX: Final = 100
MESSAGE_SCHEMA_BYTES_MAX: Final = 8 * KIB
MESSAGE_SCHEMA_PATTERNS_MAX: Final = 10
MESSAGE_SCHEMA_CHECKS_MAX: Final = 100
"""Checks that a schema may put one value of a message to: schema_work.py says what counts."""
EXPLAINED_CHECKS_MAX: Final = 250
"""With alternatives in a schema, what is wrong with a message is told up to so many checks."""
SCHEMA_CHECK_SECONDS_MAX: Final = 2
"""Processor time of a check in a process of its own."""
SCHEMA_CHECK_WAIT_SECONDS_MAX: Final = 30
SCHEMA_CHECKS_WAITING_MAX: Final = 8
PATTERN_BYTES_MAX: Final = 64 * KIB
"""How much memory one regular expression of a schema may take, compiled."""
TENANT_SETTINGS_BYTES_MAX: Final = 16 * KIB
OPEN_JSON_DEPTH_MAX: Final = 32
INBOX_CONFIG_AGE_MS: Final = 1 * SECOND_MS
"""How old what a process remembers of settings may be."""
CACHED_INBOXES_MAX: Final = 10_000
CACHED_JOINS_MAX: Final = 100_000

# The audit trail.
AUDIT_MS: Final = 400 * DAY_MS
AUDIT_ACTS_MAX: Final = 25
"""How many tokens that a key asks for at once share an entry: it stays small, and is one write."""

# The sweeper.
SWEEP_BATCH_ROWS: Final = 200
SWEEP_TICK_MS: Final = 1 * SECOND_MS

# Deleting chats.
DELETE_STEP_ROWS: Final = 100
"""So many rows are deleted, or emptied, in one transaction of the embedded store."""
DELETIONS_AT_ONCE: Final = 100
"""So many chats are deleted by turns; further ones wait."""
DELETION_LEASE_MS: Final = 60 * SECOND_MS
DELETION_DELIVERY_MS: Final = 2 * SECOND_MS
"""Where others deliver, members stay so long after the end of a chat: they are told of it."""

assert 6 * CONTENT_BYTES_MAX + 8 * KIB < FRAME_BYTES_MAX, "escaped content must fit in one frame"
assert 6 * CONTENT_BYTES_MAX + 4 * KIB < PAGE_FRAME_BYTES_MAX, "a page frame holds any one entry"
assert PAGE_FRAME_BYTES_MAX < FRAME_BYTES_MAX, "a page is one frame"
assert 3 * MEMBERS_PER_ENTRY_MAX + 2 <= 100, "one membership step is one transaction"
assert LISTED_UNREAD_ENTRIES_MIN <= UNREAD_ENTRIES_MAX <= LIST_UNREAD_ENTRIES_MAX
assert SMALL_CHAT_MEMBERS_MAX < GROUP_MEMBERS_MAX
assert CODE_ATTEMPTS_ELSEWHERE_MAX < CODE_ATTEMPTS_MAX, "who asked for a code can always try it"
assert NUMBER_CODES_MAX <= NUMBER_DAY_CODES_MAX < NUMBER_ALL_TENANTS_DAY_CODES_MAX
assert GROUP_MEMBERS_MAX <= USER_DAY_STRANGERS_MAX, "the largest group can be made in one day"
assert INVITER_INVITES_MAX < USER_INVITES_MAX
assert INVITE_DECLINED_MS < INVITE_MS
assert OTHERS_CHATS_MAX < OTHERS_DIRECT_CHATS_MAX, "groups leave room for direct chats"
assert CATCH_UP_CHAT_ENTRIES_MAX <= WINDOW_ENTRIES, "one chat's catch-up fits an empty window"
assert OUTBOX_PAUSE_BYTES < OUTBOX_BYTES_MAX
assert TRAILER_BYTES_MAX <= HEAD_BYTES_MAX
assert SCARCE_KEEP_ALIVE_MS < REQUEST_MS_MAX < KEEP_ALIVE_MS
assert ADDRESS_HTTP_CONNECTIONS_MAX < UNDECIDED_CONNECTIONS_MAX, (
    "one address cannot fill the queue of those who have not said what they want"
)
assert (
    6 * (TITLE_BYTES_MAX + BODY_BYTES_MAX + LINK_BYTES_MAX + SENDER_CHARS_MAX)
    + (EXTRAS_BYTES_MAX + 4 * KIB)
    < FRAME_BYTES_MAX
), "an escaped notification must fit in one frame"
assert 68 * AUDIENCE_USERS_MAX + REQUEST_BODY_BYTES_MAX < POST_BODY_BYTES_MAX, (
    "as many of the longest user ids as there may be fit in a post"
)
assert (
    AUDIENCE_USERS_MAX
    + (TITLE_BYTES_MAX + BODY_BYTES_MAX + LINK_BYTES_MAX + EXTRAS_BYTES_MAX)
    + (SENDER_CHARS_MAX + HOST_SYSTEM_ID_CHARS_MAX + LABEL_CHARS_MAX)
    + KIB
    < BODY_PARTS_MAX
), "as many users as there may be can be told a text of nothing but commas"
assert SEAL_SECONDS_MAX <= REVOKED_SECONDS_MAX, "what a key opens is shown longer than it seals"
assert SEAL_SECONDS_MAX + SEALED_WRITE_SECONDS_MAX < ERASING_SECONDS, (
    "the clocks of two processes may differ a little in how fast they run"
)
assert PAGE_MAX < USER_COPIES_MAX <= INBOX_LOG_ENTRIES_MAX
assert (
    USER_REQUESTS_PER_SECOND <= ADDRESS_REQUESTS_PER_SECOND
    and USER_REQUESTS_BURST <= ADDRESS_REQUESTS_BURST
), "what a user may ask for can be asked for from one address"
assert PAGE_DEFAULT <= PAGE_ROWS_PER_TOKEN, "a page as most ask for it is a plain request"
assert 10 * GROUP_MEMBERS_MAX <= GROUP_MEMBERS_PER_TOKEN * USER_REQUESTS_BURST, (
    "a user can make ten of the largest groups at once"
)
assert 10 * AUDIENCE_USERS_MAX <= JOB_USERS_MAX * TENANT_KEY_REQUESTS_BURST, (
    "a tenant can post ten of the largest notifications at once"
)
assert TENANT_LARGE_BODIES_MAX < LARGE_BODIES_MAX, "one tenant leaves slots to the others"
assert LARGE_BODY_WAIT_MS_MAX < REQUEST_MS_MAX // 2, "who waits has time to arrive after it"
assert DELETION_DELIVERY_MS < DELETION_LEASE_MS, "a lease outlasts every wait of a step"
assert SMALL_CHAT_MEMBERS_MAX <= PRESENCE_PEERS_MAX, "everyone in a small chat counts"
