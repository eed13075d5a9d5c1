# SPDX-License-Identifier: Apache-2.0
"""Whether a chat is the user's own: made by the user, or written in."""

from typing import Final

# What was there before counts as chats of others until the user writes in them: nobody who is
# full of chats has to leave one to make one.
OWN_CHATS: Final = "ALTER TABLE delivery_state ADD COLUMN is_own INTEGER NOT NULL DEFAULT 0;"
