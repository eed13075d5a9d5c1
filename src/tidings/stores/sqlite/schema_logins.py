# SPDX-License-Identifier: Apache-2.0
"""The schema of login codes, as it was extended: who asked for a code, and who tried it."""

from typing import Final

LOGIN_ATTEMPTS: Final = """
ALTER TABLE login_codes ADD COLUMN asked_by TEXT;
ALTER TABLE login_codes ADD COLUMN attempts_elsewhere INTEGER NOT NULL DEFAULT 0;
"""
"""Of an address only a keyed digest is kept."""
