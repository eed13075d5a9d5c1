# SPDX-License-Identifier: Apache-2.0
"""Configure inboxes, post and retract notifications, and read them as a user."""
