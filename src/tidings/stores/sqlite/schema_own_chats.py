# SPDX-License-Identifier: Apache-2.0
"""Whether a chat is the user's own: made by the user, or written in."""

from typing import Final

OWN_CHATS: Final = "ALTER TABLE delivery_state ADD COLUMN is_own INTEGER NOT NULL DEFAULT 0;"

# What was there before that column: otherwise people who have written to each other for years would
# be strangers until they write again. One pass over the log, which keeps each pair of chat and
# author once; to look for an own message of every member would read long chats once for each
# silent member. Who left and joined again has begun afresh.
OWN_CHATS_BEFORE: Final = """
UPDATE delivery_state SET is_own = 1 FROM (
    SELECT DISTINCT m.chat_id, m.user_id
    FROM messages AS e
    JOIN chat_memberships AS m ON m.chat_id = e.chat_id AND m.user_id = e.sender
    WHERE e.kind = 'message' AND e.sequence > m.joined
) AS own
WHERE delivery_state.user_id = own.user_id AND delivery_state.chat_id = own.chat_id;
UPDATE delivery_state SET is_own = 1 FROM (
    SELECT c.chat_id, c.creator
    FROM chats AS c
    JOIN chat_memberships AS m ON m.chat_id = c.chat_id AND m.user_id = c.creator
    WHERE m.joined = 1
) AS own
WHERE delivery_state.user_id = own.creator AND delivery_state.chat_id = own.chat_id;
"""
