# SPDX-License-Identifier: Apache-2.0
"""Tidings: a messaging backend to put into your own product.

This is the only place that states the version, for the server and for the client.
"""

__version__ = "0.1.0"
