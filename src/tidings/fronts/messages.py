# SPDX-License-Identifier: Apache-2.0
"""The messages between the owner and its fronts, which run the same version of the program.

A front numbers nothing itself: the owner gives each socket that it passes to a front a number, and
both name the socket by it. Messages in one direction arrive in the order in which they were sent.
The promises of a connection depend on this order.
"""

from collections.abc import Sequence

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.model.chats import Move
from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import EncodedEntry
from tidings.ports.store import Requester
from tidings.wire.codes import Close
from tidings.wire.frames import SendFrame, TypingFrame

# Both directions.


class LinkQuestion(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A question, which is answered with an `LinkAnswer` of the same number."""

    number: int
    subject: str
    arguments: msgspec.Raw
    requester: Requester
    """On whose behalf the store is asked."""


class LinkAnswer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The answer to a question: a value, or the name and the detail of a refusal."""

    number: int
    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    refusal: str = ""
    detail: str = ""
    wait_ms: int = 0


# From a front.


class HeldSocket(msgspec.Struct, frozen=True, array_like=True):
    """A socket that a front holds, with the addresses under which the owner counts it."""

    socket: int
    slot_address: str | None
    address: str | None


class Held(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The first message of a front to a new owner: the sockets that it holds."""

    sockets: Sequence[HeldSocket]
    connections: int
    """Number of connections that an owner before this one knew. An `Opened` for each of them
    follows."""


class Opened(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A client was identified. The owner may close the connection from now on."""

    socket: int
    caller: UserCaller
    device: str
    connection: str
    client: str | None
    is_away: bool
    has_totals: bool


class SocketClosed(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A socket has ended, whether its client was identified or not."""

    socket: int


class Perform(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A frame that the owner carries out; `follows` says whether the connection follows its
    chat."""

    socket: int
    follows: bool
    frame: SendFrame | TypingFrame


class Moved(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """A receipt that a client has moved, to be stored within an interval."""

    move: Move
    interval_ms: int


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """A client has shown a new token."""

    socket: int
    caller: UserCaller


class AwayChanged(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Nobody looks at a device any more, or somebody does again."""

    socket: int
    is_away: bool


class Noted(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """The state of a front, as the operator sees it."""

    state: bytes


FrontMessage = (
    LinkQuestion
    | LinkAnswer
    | Held
    | Opened
    | SocketClosed
    | Perform
    | Moved
    | Renewed
    | AwayChanged
    | Noted
)


# From the owner.


class OwnerWelcome(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The first message of an owner: the epoch of its store."""

    epoch: str


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """A new entry, for users who have connections at this front."""

    entry: EncodedEntry
    users: Sequence[UserKey]


class SendToSocket(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A frame for one connection."""

    socket: int
    frame: bytes


class NoticeFrame(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """A frame for one connection, if it follows the chat."""

    socket: int
    chat: ChatId
    frame: bytes


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The answer to a `send`. If it was stored, `chat` and `sequence` say where."""

    socket: int
    request: str
    frame: bytes
    chat: ChatId | None = None
    sequence: int = 0


class CloseSocket(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """A connection that must be closed."""

    socket: int
    code: Close
    retry_after_ms: int | None


class Blocked(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """The users whom the user of a connection blocks."""

    socket: int
    users: Sequence[str]


class Saw(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """The owner has read all revocations up to this time of the machine's monotonic clock, and has
    sent what follows from them."""

    at: float


class WentBlind(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """The owner cannot read revocations."""


class CompareHeads(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """Entries were left out because the front was slow: it has to compare heads."""


class NotificationHanded(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """A notification was sent to connections."""

    notification: str


class HintFrame(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """A frame that changes the unread total of one connection, and that its client does not get."""

    socket: int
    frame: bytes


OwnerMessage = (
    LinkQuestion
    | LinkAnswer
    | OwnerWelcome
    | Deliver
    | SendToSocket
    | NoticeFrame
    | Answered
    | CloseSocket
    | Blocked
    | Saw
    | WentBlind
    | CompareHeads
    | NotificationHanded
    | HintFrame
)


class PassedSocket(msgspec.Struct, frozen=True, array_like=True):
    """What comes with the descriptor of a socket: the bytes that its protocol gets first."""

    held: HeldSocket
    start: bytes
