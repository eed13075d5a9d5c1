# SPDX-License-Identifier: Apache-2.0
"""Tidings: a messaging backend to put into your own product."""

__version__ = "0.1.0"
