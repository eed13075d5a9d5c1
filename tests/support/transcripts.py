# SPDX-License-Identifier: Apache-2.0
"""Reads the transcripts of `clients/spec`, and compares frames as its README describes."""

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

FOLDER: Final = Path(__file__).parents[2] / "clients" / "spec"
_VARIABLE: Final = re.compile(r"\$\w+")

Json = dict[str, Any]


class Transcript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transcript file."""

    transcript: str
    about: str
    catch_up: str
    replay: tuple[str, ...] = ("client", "server")
    saved: Json = {}
    values: Json = {}
    steps: list[Json] = []


def transcripts(side: str) -> list[Transcript]:
    """Return all transcripts that this side replays, by name."""
    return [one for path in sorted(FOLDER.glob("*.jsonl")) if side in (one := _read(path)).replay]


def _read(path: Path) -> Transcript:
    head, *steps = map(json.loads, path.read_text().splitlines())
    read = msgspec.convert({**head, "steps": steps}, Transcript)
    assert path.stem == read.transcript
    return read


class Variables:
    """The variables of a transcript, with the values that either side has chosen."""

    def __init__(self, examples: Json, bound: Json) -> None:
        self.bound = bound
        self._examples = examples

    def fill(self, given: Any) -> Any:
        """Return a frame to send, with variables replaced by their values or examples."""
        match given:
            case {"any": [first, *_]}:
                return self.fill(first)
            case dict():
                return {self.fill(key): self.fill(one) for key, one in given.items()}
            case list():
                return [self.fill(one) for one in given]
            case str() if _VARIABLE.fullmatch(given):
                return self._value(given)
            case str():
                return _VARIABLE.sub(lambda found: str(self._value(found[0])), given)
            case _:
                return given

    def _value(self, name: str) -> Any:
        return self.bound.setdefault(name, self._examples.get(name, name[1:]))

    def matches(self, expected: Any, actual: Any) -> bool:
        """Return whether a value matches the transcript; if so, set the variables without a
        value."""
        bound = dict(self.bound)
        if not _matches(expected, actual, bound):
            return False
        self.bound.update(bound)
        return True


def _matches(expected: Any, actual: Any, bound: Json) -> bool:
    match expected:
        case {"any": [*some]}:
            return any(_matches(one, actual, bound) for one in some)
        case dict():
            return isinstance(actual, dict) and all(
                _matches(one, actual.get(bound.get(key, key)), bound)
                for key, one in expected.items()
            )
        case list():
            return (
                isinstance(actual, list | tuple)
                and len(actual) == len(expected)
                and all(map(lambda one, it: _matches(one, it, bound), expected, actual))
            )
        case str() if _VARIABLE.fullmatch(expected):
            return bool(bound.setdefault(expected, actual) == actual)
        case _:
            return bool(expected == actual)


class Heard:
    """Collects the frames or events of one side that no step of the transcript has named yet."""

    def __init__(self, variables: Variables, kind: str, automatic: frozenset[str]) -> None:
        """Set up the collection; `kind` is the field with the type, and automatic types need no
        step."""
        self.unnamed: list[Json] = []
        self._variables = variables
        self._kind = kind
        self._automatic = automatic

    def take(self, expected: Json) -> Json | None:
        """Remove and return the first frame of the same kind and chat; None if there is none yet.

        This frame has to match. Of automatic frames, the first one that matches is removed.
        """
        kind, chat = expected[self._kind], self._variables.fill(expected.get("chat"))
        for place, one in enumerate(self.unnamed):
            if one[self._kind] == kind and chat in (None, one.get("chat")):
                if self._variables.matches(expected, one):
                    return self.unnamed.pop(place)
                assert kind in self._automatic, (expected, one)
        return None

    def check_nothing_left(self) -> None:
        """Check that a step has named every frame, except automatic ones."""
        left = [one for one in self.unnamed if one[self._kind] not in self._automatic]
        assert left == [], left
