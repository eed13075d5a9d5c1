# SPDX-License-Identifier: Apache-2.0
"""Tidings: a messaging backend to put into your own product.

The version is stated here only, for the server and for the client.
"""

__version__ = "0.1.0"
