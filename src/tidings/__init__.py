# SPDX-License-Identifier: Apache-2.0
"""Tidings: a messaging backend to put into your own product."""

from tidings.version import __version__ as __version__
