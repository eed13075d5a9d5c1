# SPDX-License-Identifier: Apache-2.0
"""The version of Tidings, server and client: the one place that states it."""

__version__ = "0.1.0"
