# SPDX-License-Identifier: Apache-2.0
"""The commands that an operator types."""

from tidings.cli.command_line import main

__all__ = ["main"]
