# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics of sockets and frames, with labels that clients cannot multiply."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from tidings.gateway.client_connection import LocalConnection
from tidings.metrics import declared
from tidings.metrics.meters import Labels, Reading, report
from tidings.wire import frames, inbox_frames, scheduled
from tidings.wire.codes import Close

CLIENT_NAMES_MAX: Final = 20
"""Number of names of clients that are labels. All other clients are counted together."""
NO_CODE: Final = 1005
LOST: Final = 1006
_KNOWN_CODES: Final = frozenset({1000, 1001, NO_CODE, LOST, 1008, 1009, 1011, *Close})
_OPS: Final = sorted(
    {
        str(kind.__struct_config__.tag)
        for module in (frames, inbox_frames, scheduled)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind not in get_args(frames.ClientFrame)
        and kind.__struct_config__.tag
    }
)

SENT: Final = [0] * 1_280
"""Number of frames sent to clients, by `slot_of` the frame. A list is the fastest counter."""

_UNREAD_TOTAL: Final = ("unread_total", "out")
_client_names: Final[dict[str, str]] = {}


def slot_of(frame: bytes) -> int:
    """Return the slot of a frame: a number made of the first and the fourth letter of its name.

    All names have different numbers, except `unread` and `unread_total`. A frame begins with its
    name, as in `{"op":"sent"`.
    """
    return frame[7] + 4 * frame[10]


def count_unread_total() -> None:
    """Count a frame `unread_total`. When it is sent, it counts as `unread` too."""
    declared.frames.counts[_UNREAD_TOTAL] += 1


_SLOTS: Final = {op: slot_of(f'{{"op":"{op}"'.encode()) for op in _OPS}


def frame_readings(_: object) -> list[Reading]:
    """Return the number of frames that were sent, by name."""
    sent = {op: SENT[slot] for op, slot in _SLOTS.items() if op != "unread_total"}
    sent["unread"] = max(0, sent["unread"] - int(declared.frames.counts.get(_UNREAD_TOTAL, 0)))
    return [(declared.frames, (op, "out"), count) for op, count in sent.items() if count]


def _frame_labels(key: type | Labels) -> Labels:
    if isinstance(key, type):
        return key.__struct_config__.tag, "in"  # type: ignore[attr-defined]
    return key


declared.frames.to_labels = _frame_labels
report(declared.frames, frame_readings)


def count_closed(code: int) -> None:
    """Count a closed socket. Of the codes that a client may choose, only the usual ones are
    labels."""
    declared.sockets_closed.counts[str(int(code)) if code in _KNOWN_CODES else "other"] += 1


def socket_readings(connections: Iterable[LocalConnection]) -> list[Reading]:
    """Return the numbers of sockets by client, and of slow sockets."""
    clients = Counter(dict.fromkeys(("unknown", *_client_names), 0))
    slow = 0
    for connection in connections:
        clients[_client_label(connection.conversation.client)] += 1
        slow += connection.progress.is_paused
    readings: list[Reading] = [(declared.sockets, name, count) for name, count in clients.items()]
    return [*readings, (declared.sockets_slow, (), slow)]


def _client_label(client: str | None) -> str:
    if client is None:
        return "unknown"
    name = client.partition("/")[0]
    if len(_client_names) < CLIENT_NAMES_MAX:
        _client_names[name] = name
    return _client_names.get(name, "other")
