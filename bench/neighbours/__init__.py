# SPDX-License-Identifier: Apache-2.0
"""Neighbours: one stranger, user or tenant attacks while another tenant goes on with its day.

Each attack runs against a server of its own with all limits on. Meanwhile users of another tenant
send one message and ask for one chat list a second each, and hold a socket. The table shows what
they notice, and what the attack does to the server's memory.
"""

from bench.neighbours.running import add_options, run

__all__ = ["add_options", "run"]
