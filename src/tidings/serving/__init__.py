# SPDX-License-Identifier: Apache-2.0
"""Serving: from settings to an open port, and back again without losing anything."""

from tidings.serving.server import serve

__all__ = ["serve"]
