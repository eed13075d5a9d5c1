# SPDX-License-Identifier: Apache-2.0
"""Verbs: what users and operators can do, each checked, written, and made known."""
