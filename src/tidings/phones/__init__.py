# SPDX-License-Identifier: Apache-2.0
"""Reach phones by push notices, and by text messages with login codes."""
