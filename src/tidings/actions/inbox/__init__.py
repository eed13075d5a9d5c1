# SPDX-License-Identifier: Apache-2.0
"""Inboxes: what a tenant tells its users, and what each of them sees of it."""
