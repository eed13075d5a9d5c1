# SPDX-License-Identifier: Apache-2.0
"""XMPP as far as the load needs it: a login, a group chat, and messages."""

import base64
from typing import Final

from bench.peers.member import NUMBER, Member, Ping
from bench.peers.wire import Connection, Steps, connect
from tidings.tools.load_talker import CONTENT

DOMAIN: Final = "localhost"
PASSWORD: Final = "bench"  # of users that exist for seconds, behind a loopback port
# Every message of the load has exactly one body, and nothing else has one.
END_OF_BODY: Final = b"</body>"

_REFUSALS: Final = (b"<failure", b"<stream:error", b"type='error'")
_OPEN: Final = (
    f"<stream:stream to='{DOMAIN}' version='1.0' xmlns='jabber:client'"
    " xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()
_AUTH: Final = b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>%s</auth>"
_BIND: Final = (
    b"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
    b"<resource>bench</resource></bind></iq>"
)
_JOIN: Final = (
    "<presence to='{room}/{user}'><x xmlns='http://jabber.org/protocol/muc'>"
    "<history maxstanzas='0'/></x></presence>"
)
# No module handles it, so the answer is an error, which costs the server less than a module would.
_PING: Final = b"<iq type='get' id='ping'><query xmlns='bench'/></iq>"


async def log_in(port: int, user: str) -> Connection:
    """Return a connection on which the user is logged in and available."""
    connection = await connect(port, user, _REFUSALS)
    await connection.take(_login(user))
    return connection


async def in_room(port: int, user: str, room: str) -> Member:
    """Log in a user and enter a room. A message is completed when the room has sent it back to
    its sender."""
    connection = await log_in(port, user)
    stanza = _JOIN.format(room=room, user=user).encode()
    await connection.ask(stanza, b"<subject")  # the last thing that one who enters is sent
    ending = f" {user}"
    return Member(
        connection=connection,
        message=_message(room, "groupchat", ending),
        arrival=END_OF_BODY,
        answer=ending.encode() + END_OF_BODY,
    )


def in_pair(connection: Connection, to: Connection) -> Member:
    """Return a user who sends to another one."""
    message = _message(f"{to.user}@{DOMAIN}", "chat", "")
    return Member(connection=connection, message=message, arrival=END_OF_BODY)


def ping(port: int, user: str) -> Ping:
    """Return what a user says who pings."""
    return Ping(port=port, login=_login(user), ping=_PING, pong=b"id='ping'")


def _login(user: str) -> Steps:
    secret = base64.b64encode(f"\0{user}\0{PASSWORD}".encode())
    return [
        (_OPEN, b"</stream:features>"),
        (_AUTH % secret, b"<success"),
        (_OPEN, b"</stream:features>"),
        (_BIND, b"</iq>"),
        (b"<presence/>", b"<presence"),
    ]


def _message(to: str, kind: str, ending: str) -> bytes:
    """Return the bytes of a message; the ending of its body tells whose it is."""
    head = f"<message to='{to}' type='{kind}' id='{NUMBER.decode()}'>"
    return f"{head}<body>{CONTENT}{ending}</body></message>".encode()
