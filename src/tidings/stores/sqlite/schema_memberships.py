# SPDX-License-Identifier: Apache-2.0
"""What makes large groups and long chat lists cheap: an order of members, and counts of chats.

A chat in a list shows its first ten members. Without the index all thousand of a large group would
be sorted for it, and a list has a hundred chats. And whether somebody may be in one more chat is
looked up for each of the thousand: without the counts by counting a thousand chats of each.
"""

from typing import Final

MEMBERS_BY_JOINING: Final = """
CREATE INDEX chat_memberships_by_joining ON chat_memberships (chat_id, joined, user_id);
"""

# Counted by triggers: receipts come from requests and from imports, which may replace one.
CHAT_COUNTS: Final = """
CREATE TABLE chat_counts (
    user_id TEXT PRIMARY KEY,
    chats INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO chat_counts SELECT user_id, count(*) FROM delivery_state GROUP BY user_id;
CREATE TRIGGER receipts_come BEFORE INSERT ON delivery_state WHEN NOT EXISTS (
    SELECT 1 FROM delivery_state WHERE user_id = new.user_id AND chat_id = new.chat_id) BEGIN
    INSERT INTO chat_counts VALUES (new.user_id, 1) ON CONFLICT DO UPDATE SET chats = chats + 1;
END;
CREATE TRIGGER receipts_go AFTER DELETE ON delivery_state BEGIN
    UPDATE chat_counts SET chats = chats - 1 WHERE user_id = old.user_id;
END;
"""
