# SPDX-License-Identifier: Apache-2.0
"""Explain what became of a message or notification on its way to a user."""
