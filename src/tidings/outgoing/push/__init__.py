# SPDX-License-Identifier: Apache-2.0
"""Providers of push: each posts notices to devices through one kind of push service."""
