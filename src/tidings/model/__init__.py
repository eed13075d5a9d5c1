# SPDX-License-Identifier: Apache-2.0
"""The values and rules of chats and inboxes: types and pure functions, without I/O."""
