# SPDX-License-Identifier: Apache-2.0
"""What an operator types."""

from tidings.cli.command_line import main

__all__ = ["main"]
