# SPDX-License-Identifier: Apache-2.0
"""The step of the schema with which scheduled messages may have files."""

from typing import Final

SCHEDULED_FILES: Final = """
ALTER TABLE uploads ADD COLUMN scheduled_id TEXT;
ALTER TABLE scheduled ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]';
"""
