# SPDX-License-Identifier: Apache-2.0
"""Reaching phones: push notices, and text messages with login codes."""
