# SPDX-License-Identifier: Apache-2.0
"""Opens the port, serves until the process is asked to stop, and drains."""

from tidings.serving.server import serve

__all__ = ["serve"]
