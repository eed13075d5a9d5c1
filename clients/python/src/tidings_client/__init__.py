# SPDX-License-Identifier: Apache-2.0
"""A client for Tidings: one socket that comes back by itself, an outbox, typed events."""

from tidings_client.api import Api
from tidings_client.backoff import Backoff
from tidings_client.client import Client, History
from tidings_client.errors import (
    ClientClosed,
    ClientStopped,
    OutboxFull,
    Refused,
    SendExpired,
    StorageBusy,
    StorageTrouble,
    TidingsError,
    Unavailable,
    WrongUser,
)
from tidings_client.events import (
    ChatCreated,
    ChatGone,
    ChatResynced,
    Connected,
    Disconnected,
    Edited,
    EntryEvent,
    Event,
    MemberAdded,
    MemberRemoved,
    Message,
    OtherEntry,
    Presence,
    Reacted,
    ReceiptMoved,
    Redacted,
    Renamed,
    RoleChanged,
    SendFailed,
    Typing,
    Unreacted,
    UnreadChanged,
)
from tidings_client.sending import Sent
from tidings_client.storage import FileStorage, MemoryStorage, Storage

__all__ = [
    "Api",
    "Backoff",
    "ChatCreated",
    "ChatGone",
    "ChatResynced",
    "Client",
    "ClientClosed",
    "ClientStopped",
    "Connected",
    "Disconnected",
    "Edited",
    "EntryEvent",
    "Event",
    "FileStorage",
    "History",
    "MemberAdded",
    "MemberRemoved",
    "MemoryStorage",
    "Message",
    "OtherEntry",
    "OutboxFull",
    "Presence",
    "Reacted",
    "ReceiptMoved",
    "Redacted",
    "Refused",
    "Renamed",
    "RoleChanged",
    "SendExpired",
    "SendFailed",
    "Sent",
    "Storage",
    "StorageBusy",
    "StorageTrouble",
    "TidingsError",
    "Typing",
    "Unavailable",
    "Unreacted",
    "UnreadChanged",
    "WrongUser",
]

__version__ = "0.1.0"
