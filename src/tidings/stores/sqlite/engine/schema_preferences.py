# SPDX-License-Identifier: Apache-2.0
"""The step of the schema that adds the preferences of users in inboxes."""

from typing import Final

PREFERENCES: Final = """
ALTER TABLE read_states ADD COLUMN preferences TEXT;
ALTER TABLE inboxes ADD COLUMN has_preferences INTEGER NOT NULL DEFAULT 0;
"""
