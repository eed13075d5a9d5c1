# SPDX-License-Identifier: Apache-2.0
"""The modules with the access patterns of the inbox table."""

from typing import Final

from tidings.stores.dynamodb.inbox import (
    due_patterns,
    escalation_patterns,
    inbox_patterns,
    late_patterns,
    preference_patterns,
    webhook_patterns,
)

OF_INBOXES: Final = (
    inbox_patterns,
    due_patterns,
    preference_patterns,
    late_patterns,
    escalation_patterns,
    webhook_patterns,
)
