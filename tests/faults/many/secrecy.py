# SPDX-License-Identifier: Apache-2.0
"""Rules on what devices of a fleet heard, frame by frame, besides those on logs.

Each returns the violations it found, in words.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tests.faults.many.evictions import Eviction
from tests.faults.many.fleet import Pause
from tests.faults.many.roaming import Heard, Roamer, Stay
from tests.support.client_socket import Frame

RESTARTING: Final = 1012
YOUNG_SECONDS: Final = 30.0
"""So young a message may be pushed again when its event comes again."""

Notice = Mapping[str, Any]


def overheard(outsiders: Iterable[Roamer]) -> Iterator[str]:
    """Who is in no chat hears of none."""
    for roamer in outsiders:
        for heard in roamer.heard:
            if "chat" in heard.frame:
                yield f"overheard: {roamer.label} was told {_short(heard.frame)}"


def after_removal(guests: Iterable[Roamer], rounds: Sequence[Eviction]) -> Iterator[str]:
    """A removed member gets the removal and nothing beyond it."""
    removed = {one.chat: one.removed for one in rounds}
    for roamer in guests:
        for heard in roamer.heard:
            for entry in _entries(heard.frame):
                if entry["sequence"] > removed.get(entry["chat"], entry["sequence"]):
                    yield f"after removal: {roamer.label} was told {_short(entry)}"


def chats_heard_of(roamers: Iterable[Roamer], rounds: Sequence[Eviction]) -> set[str]:
    """The chats of the rounds of which some of these devices were told an entry."""
    chats = {one.chat for one in rounds}
    told = {e["chat"] for one in roamers for heard in one.heard for e in _entries(heard.frame)}
    return chats & told


def after_replay(guests: Iterable[Roamer], rounds: Sequence[Eviction], since: int) -> Iterator[str]:
    """Once the removal has reached everyone, a removed member hears nothing of the chat at all.

    But for the removal itself, which a device that comes again is told again.
    """
    removed = {one.chat: one.removed for one in rounds}
    for roamer in guests:
        for heard in _since(roamer, since):
            chat = heard.frame.get("chat")
            is_removal = heard.frame.get("sequence") == removed.get(str(chat))
            if chat in removed and heard.frame["op"] != "gone" and not is_removal:
                yield f"replayed: {roamer.label} was told {_short(heard.frame)}"


def unhidden(roamers: Iterable[Roamer], rounds: Sequence[Eviction], since: int) -> Iterator[str]:
    """What was redacted or has expired is not shown again."""
    hidden = [content for one in rounds for content in one.hidden]
    for roamer in roamers:
        for heard in _since(roamer, since):
            told = json.dumps(heard.frame, ensure_ascii=False)
            for content in hidden:
                if f'"{content}"' in told:
                    yield f"unhidden: {roamer.label} was shown {content}"


def pushed_again(
    notices: Iterable[Notice], rounds: Sequence[Eviction], replayed_at: float
) -> Iterator[str]:
    """Nobody is called for a message that is old; `replayed_at` is in seconds since 1970."""
    old = old_entries(rounds, replayed_at)
    for notice in notices:
        if (notice["chat"], notice["sequence"]) in old:
            yield f"pushed again: {notice['sequence']} of {notice['chat']}"


def old_entries(rounds: Sequence[Eviction], moment: float) -> set[tuple[str, int]]:
    """Chat and sequence of what nobody is called for any more."""
    return {
        (one.chat, sequence)
        for one in rounds
        for sequence, at in one.created.items()
        if moment - _seconds(at) > YOUNG_SECONDS
    }


def stale(roamers: Iterable[Roamer], pauses: Sequence[Pause]) -> Iterator[str]:
    """A gateway that stood still too long says nothing but goodbye on the connections it had."""
    for roamer in roamers:
        for pause in pauses:
            for stay in over_pause(roamer, pause):
                late = [
                    heard
                    for heard in _since(roamer, pause.resumed)
                    if heard.stay is stay and heard.frame["op"] != "bye"
                ]
                if late:
                    yield f"stale: {roamer.label} was told {_short(late[0].frame)} after a pause"
                elif stay.code not in (None, RESTARTING) and not stay.was_dropped:
                    yield f"stale: {roamer.label} was closed with {stay.code} after a pause"


def over_pause(roamer: Roamer, pause: Pause) -> list[Stay]:
    """The connections that a pause caught."""
    return [
        stay
        for stay in roamer.stays
        if stay.url == pause.url
        and stay.opened < pause.stopped
        and (stay.closed is None or stay.closed > pause.resumed)
    ]


def _since(roamer: Roamer, moment: int) -> Iterator[Heard]:
    return (heard for heard in roamer.heard if heard.at > moment)


def _entries(frame: Frame) -> list[Frame]:
    if frame["op"] == "page":
        return [{"chat": frame["chat"], **entry} for entry in frame["entries"]]
    return [frame] if frame["op"] == "entry" else []


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _short(frame: Frame) -> str:
    kept = ("op", "chat", "sequence", "kind", "user")
    return str({name: frame[name] for name in kept if name in frame})
