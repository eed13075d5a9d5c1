# SPDX-License-Identifier: Apache-2.0
"""The command `tidings` and its subcommands."""

from tidings.cli.command_line import main

__all__ = ["main"]
