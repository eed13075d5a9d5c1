# SPDX-License-Identifier: Apache-2.0
"""The conversation replays the transcripts of `clients/spec`, as every client does."""

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest

from clients.python.tests.talking import Talk
from tests.support.transcripts import FOLDER, Heard, Json, Transcript, Variables, transcripts
from tidings_client import events
from tidings_client.backoff import Backoff, Ended, Retry
from tidings_client.frames import Bye, Page, decode, encode
from tidings_client.notifications import NotificationRetracted
from tidings_client.requests import Question
from tidings_client.saved import Changes, Held
from tidings_client.selection import Selection
from tidings_client.sending import Sent
from tidings_client.storage import MemoryStorage

TICK_MS = 500
RULES = (
    "backoff",
    "conversation",
    "erasures",
    "heartbeat",
    "inbox_events",
    "log_view",
    "outbox",
    "receipts",
    "requests",
)
NAMES = {
    events.MemberAdded: "added",
    events.MemberRemoved: "removed",
    events.RoleChanged: "role",
    events.ChatCreated: "created",
    events.ChatDeleted: "deleted",
    events.ChatResynced: "resynced",
    events.ChatGone: "gone",
    events.ChatHead: "head",
    events.ReceiptMoved: "receipt",
    events.UnreadChanged: "unread",
    NotificationRetracted: "retracted",
    events.SendFailed: "failed",
}


class Replay:
    """A conversation whose server and application are the transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.variables = Variables(transcript.values, {"$token": "token"})
        self.frames = Heard(self.variables, "op", frozenset({"ping", "received"}))
        self.events = Heard(self.variables, "type", frozenset({"head"}))
        self.messages: list[events.Message] = []
        self.backoff = Backoff(lambda _least, most: most)
        self.bye: Bye | None = None
        self.ended: Ended | None = None
        selection = Selection(is_by_heads=transcript.catch_up == "heads")
        self.talk = Talk(self._storage(transcript.saved), selection=selection)

    def _storage(self, saved: Json) -> MemoryStorage:
        storage, state = MemoryStorage(), self.variables.fill(saved)
        if state:
            changes = Changes(state["user"], state["epoch"], reads=state.get("reads", {}))
            for chat, have in state["have"].items():
                changes.held[chat] = Held(state["epoch"], have)
            storage.save(changes)
        return storage

    async def step(self, step: Json) -> None:
        match step:
            case {"unheard": True} | {"elsewhere": _}:
                return
            case {"connection": what}:
                self._connection(what)
            case {"application": call}:
                self._call(**self.variables.fill(call))
            case {"server": frame}:
                self._hear(self.variables.fill(frame))
            case {"time": ms}:
                for _ in range(ms // TICK_MS):
                    self.talk.tick(TICK_MS / 1_000)
            case {"client": frame, "optional": True}:
                self.frames.take(frame)
            case {"event": event, "optional": True}:
                self.events.take(event)
            case {"client": frame}:
                assert self.frames.take(frame), f"not said: {frame}"
            case {"event": event}:
                assert self.events.take(event), f"not seen: {event}"
            case {"reconnect": expected}:
                self._reconnect(expected)
            case _:
                raise AssertionError(step)
        await self._look()

    def _connection(self, what: str | Json) -> None:
        talk = self.talk
        if what == "opened":
            talk.conversation.connected(talk.said.append, "token", "laptop", talk.now, 0)
            return
        talk.conversation.lost()
        if isinstance(what, dict):
            code, bye, self.bye = what["closed"], self.bye, None
            wait_ms = bye.retry_after_ms if bye else None
            self.ended = Ended("", code, wait_ms, is_final=bye is not None and not bye.reconnect)

    def _reconnect(self, expected: Json | None) -> None:
        assert self.ended is not None
        after = self.backoff.after(self.ended)
        if isinstance(after, Retry):
            token = "new" if after.needs_token else "same"
            assert expected == {"after_ms": after.seconds * 1_000, "token": token}
        else:
            assert expected is None

    def _call(self, call: str, chat: str, **given: Any) -> None:
        conversation, now = self.talk.conversation, self.talk.now
        match call:
            case "post":
                self.talk.post(given.pop("client_message_id"), given.pop("content"), chat, **given)
                self.talk.save()
            case "read":
                conversation.read(chat, given["sequence"])
            case "follow":
                conversation.follow(chat)
            case "typing":
                conversation.typing(chat, now)
            case "history":
                page = Question(chat, None, given["before"], given["limit"], self._got_page)
                conversation.ask(page, now)
            case _:
                raise AssertionError(call)

    def _hear(self, frame: Json) -> None:
        decoded = decode(json.dumps(frame).encode())
        if isinstance(decoded, Bye):
            self.bye = decoded
        elif decoded is not None:
            self.talk.hear(decoded)

    def _got_page(self, page: Page | Exception) -> None:
        assert isinstance(page, Page)
        places = [entry.sequence for entry in page.entries]
        seen = {"chat": page.chat, "sequences": places, "head": page.head, "more": page.more}
        self.events.unnamed.append({"type": "page", **seen})

    async def _look(self) -> None:
        """Note what the conversation has said, and hand its events to the application."""
        self.frames.unnamed += [json.loads(encode(frame)) for frame in self.talk.heard_last()]
        for key, outcome in self.talk.outcomes.items():
            if isinstance(outcome, Sent):
                seen = {"chat": key[0], "client_message_id": key[1], "sequence": outcome.sequence}
                self.events.unnamed.append({"type": "sent", **seen})
        self.talk.outcomes.clear()
        last = events.Disconnected(code=None, reason="", retry_in=None)
        self.talk.queue.put_notice(last, "last")
        while (event := (await self.talk.take(1))[0]) is not last:
            self.events.unnamed.append(self._plain(event))
        self.frames.unnamed += [json.loads(encode(frame)) for frame in self.talk.heard_last()]

    def _plain(self, event: events.Event) -> Json:
        if isinstance(event, events.ContentErased):
            gone = [one for one in self.messages if event.covers(one.sender, one.created_at)]
            return {"type": "erased", "messages": [[one.chat, one.sequence] for one in gone]}
        if isinstance(event, events.Message):
            self.messages.append(event)
        fields: Json = msgspec.to_builtins(event, builtin_types=(datetime,))
        plain = {name: _time(value) for name, value in fields.items()}
        if isinstance(event, events.OtherEntry):
            return {"type": event.kind, **plain}
        return {"type": NAMES.get(type(event), type(event).__name__.lower()), **plain}


def _time(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("rules", RULES)
def test_both_clients_have_their_rules_in_files_of_the_same_name(rules: str) -> None:
    for path in (f"python/src/tidings_client/{rules}.py", f"js/src/{rules}.js"):
        assert (FOLDER.parent / path).is_file()
    assert f"`{rules}`" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("transcript", transcripts("client"), ids=lambda one: one.transcript)
async def test_the_client_replays(transcript: Transcript) -> None:
    replay = Replay(transcript)
    for step in transcript.steps:
        await replay.step(step)
    replay.frames.check_nothing_left()
    replay.events.check_nothing_left()
