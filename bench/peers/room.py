# SPDX-License-Identifier: Apache-2.0
"""Group chat over XMPP: all users are in one room, and a few of them send."""

from bench.peers.ejabberd import Ejabberd
from bench.peers.load import END_OF_BODY, Load, Sender
from bench.peers.xmpp import DOMAIN, connect

ROOM = f"bench@conference.{DOMAIN}"


async def connect_room(node: Ejabberd, members: int, senders: int) -> Load:
    """Log in all users and enter the room. A message is completed when the room has sent it back to
    its sender."""
    names = [f"m{number}" for number in range(members)]
    node.add_users(names)
    connections = [await connect(node.port, name) for name in names]
    for connection in connections:
        await connection.join(ROOM)
    talking = []
    for connection in connections[:senders]:
        ending = f" {connection.user}"
        sender = Sender(connection, ROOM, "groupchat", ending)
        connection.count(ending.encode() + END_OF_BODY, sender.on_arrived)
        talking.append(sender)
    # The room's archive is shared: one row for all. The sender's own copy counts in its favour.
    return Load(connections, talking, copies=members, rows=1 if node.has_archive else 0)
