# SPDX-License-Identifier: Apache-2.0
"""What clients did and saw, on one clock: the only thing the checker trusts.

A message is known by its body: unique text, without the mark that the scan of the disks looks for.
"""

import dataclasses
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support.canary import MARK, canary

Frame = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an acknowledgement says about a message."""

    sequence: int
    message_id: str
    created_at: str


@dataclass(slots=True, eq=False)
class Attempt:
    """One try to send. `info` is an outcome nobody knows: it may have happened, or may yet."""

    process: str
    """The connection it was made on."""
    chat: str
    body: str
    invoked: int
    ended: int = 0
    outcome: Literal["ok", "fail", "info"] = "info"
    answer: Answer | None = None
    code: str = ""

    def acknowledge(self, answer: Frame) -> None:
        """It is durable, says the server."""
        self.answer = Answer(answer["sequence"], answer["message_id"], answer["created_at"])
        self._end("ok")

    def decline(self, code: str) -> None:
        """It did not happen and will not, says the server."""
        self.code = code
        self._end("fail")

    def lose(self, reason: str) -> None:
        """No answer came, or one that leaves it open."""
        self.code = reason
        self._end("info")

    def _end(self, outcome: Literal["ok", "fail", "info"]) -> None:
        self.ended = time.monotonic_ns()
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Seen:
    """An entry as somebody saw it: its body, or its kind if it is not a message."""

    sequence: int
    what: str
    created_at: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What one device held of one chat in the end, in the order it was applied."""

    device: str
    chat: str
    log: list[Seen]


@dataclass(slots=True)
class History:
    """One run."""

    attempts: list[Attempt] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)
    """When the server was killed."""
    start_seconds: list[float] = field(default_factory=list)
    """How long the server took to serve again."""
    reconnects: list[int] = field(default_factory=list)
    """For each time a device came back: how many entries it had missed."""
    views: list[View] = field(default_factory=list)
    """One for every device of every member of every chat."""
    glimpses: dict[str, set[Seen]] = field(default_factory=dict)
    """Everything ever shown to anyone, by chat, repeats and strays included."""
    final: dict[str, list[Seen]] = field(default_factory=dict)
    """Every chat's log as a member read it in the end."""

    def invoke(self, process: str, chat: str, body: str) -> Attempt:
        """Somebody is about to send."""
        attempt = Attempt(process, chat, body, time.monotonic_ns())
        self.attempts.append(attempt)
        return attempt

    def withdraw(self, attempt: Attempt) -> None:
        """There was no server to send it to: nothing happened."""
        self.attempts.remove(attempt)

    def killed(self) -> None:
        """The server is about to be killed."""
        self.kills.append(time.monotonic_ns())

    def save(self, path: Path) -> None:
        """One JSON object a line, in order of time, for whoever has to find out what happened."""
        lines = [(attempt.invoked, dataclasses.asdict(attempt)) for attempt in self.attempts]
        lines += [(moment, {"kill": moment}) for moment in self.kills]
        lines.sort(key=lambda line: line[0])
        views = [{"device": v.device, "chat": v.chat, "have": len(v.log)} for v in self.views]
        logs = [
            {"chat": chat, "entry": dataclasses.asdict(seen)}
            for chat, log in self.final.items()
            for seen in log
        ]
        records = [record for _, record in lines] + views + logs
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


def content_of(body: str, padding: int = 0) -> str:
    """The content that carries a body, made longer if asked."""
    return canary(body) + " " * bool(padding) + "x" * padding


def seen(entry: Frame) -> Seen:
    """An entry of the socket or of REST as an observation."""
    if entry["kind"] != "message":
        return Seen(entry["sequence"], entry["kind"], entry["created_at"])
    content = entry.get("content") or "gone"
    what = content.removeprefix(f"{MARK} ").partition(" ")[0]
    return Seen(entry["sequence"], what, entry["created_at"], entry["message_id"])
