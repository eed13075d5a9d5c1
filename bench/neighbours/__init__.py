# SPDX-License-Identifier: Apache-2.0
"""Measures how much an attack disturbs other tenants.

The attacker is somebody without an account, a user or a tenant. Each attack runs against its own
server with all limits on. Meanwhile each user of another tenant, the quiet neighbours, sends one
message and requests one chat list per second, and keeps a socket open. The table shows how the
attack affects these users, and the memory of the server.
"""

from bench.neighbours.running import add_options, run

__all__ = ["add_options", "run"]
