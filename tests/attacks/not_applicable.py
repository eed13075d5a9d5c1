# SPDX-License-Identifier: Apache-2.0
"""Attacks on what Tidings does not have, each with the reason why no test stands for it."""

from typing import Final

NOT_APPLICABLE: Final[dict[str, str]] = {}
