# SPDX-License-Identifier: Apache-2.0
"""The AsyncAPI 3.0 document of the socket, generated from the frames in `wire.frames`."""

from typing import Any, Final, get_args

import msgspec

from tidings import __version__
from tidings.wire import frames

Json = dict[str, Any]

_FROM_CLIENT: Final = get_args(frames.ClientFrame)
_FROM_SERVER: Final = (
    frames.Welcome,
    frames.EntryFrame,
    frames.Live,
    frames.SentFrame,
    frames.Refused,
    frames.PageFrame,
    frames.ReceiptFrame,
    frames.TypingNotice,
    frames.Presence,
    frames.UnreadFrame,
    frames.InvitedFrame,
    frames.InboxUnread,
    frames.NotificationFrame,
    frames.RetractedFrame,
    frames.Resync,
    frames.GoneFrame,
    frames.Bye,
    frames.Pong,
)
_SCHEMA: Final = "#/components/schemas/{name}"


def make_socket_document() -> Json:
    """Return the document, which has one channel."""
    kinds = (*_FROM_CLIENT, *_FROM_SERVER)
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_SCHEMA)
    messages = {kind.__name__: _message(kind) for kind in kinds}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidings socket",
            "version": __version__,
            "description": "Text frames, one JSON object each, at most 64 KiB, no compression.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "socket": {
                "address": "/v1/ws",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET"}},
            }
        },
        "operations": {
            "fromClient": _operation("receive", _FROM_CLIENT, "Frames from the client."),
            "toClient": _operation("send", _FROM_SERVER, "Frames from the server."),
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def _message(kind: type) -> Json:
    return {
        "name": kind.__struct_config__.tag,  # type: ignore[attr-defined]
        "summary": (kind.__doc__ or "").strip(),
        "payload": {"$ref": _SCHEMA.format(name=kind.__name__)},
    }


def _operation(action: str, kinds: tuple[type, ...], summary: str) -> Json:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/socket"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/socket/messages/{kind.__name__}"} for kind in kinds],
    }
