# SPDX-License-Identifier: Apache-2.0
"""The command line: the command `tidings` and its subcommands."""

from tidings.cli.command_line import main

__all__ = ["main"]
