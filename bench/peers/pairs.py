# SPDX-License-Identifier: Apache-2.0
"""1:1 messages over XMPP: pairs of users who send to each other."""

from bench.peers.ejabberd import Ejabberd
from bench.peers.load import END_OF_BODY, Load, Sender
from bench.peers.xmpp import DOMAIN, connect


async def connect_pairs(node: Ejabberd, pairs: int) -> Load:
    """Log in both users of every pair. A message is completed when it has reached the other
    user."""
    names = [(f"a{number}", f"b{number}") for number in range(pairs)]
    node.add_users([name for pair in names for name in pair])
    connections, senders = [], []
    for left, right in names:
        one, other = await connect(node.port, left), await connect(node.port, right)
        for connection, to in ((one, other), (other, one)):
            sender = Sender(connection, f"{to.user}@{DOMAIN}", "chat")
            to.count(END_OF_BODY, sender.on_arrived)
            senders.append(sender)
        connections += [one, other]
    # Each of the two has an archive of their own, and a row in it.
    return Load(connections, senders, copies=1, rows=2 if node.has_archive else 0)
