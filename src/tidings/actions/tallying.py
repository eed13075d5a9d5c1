# SPDX-License-Identifier: Apache-2.0
"""What an export says about itself at its end, and an import compares: counts and a digest."""

import hashlib
from collections import Counter
from typing import Final

import msgspec

from tidings.ports.moving import Closing, Fact, Progress

VERSION: Final = 4
VERSIONS_READ: Final = frozenset({1, 2, 3, VERSION})
"""Those before lack kinds and fields of facts, and differ in nothing else."""
LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Ten times the largest entry: a file without line ends is not read into memory."""


class Tally:
    """Lines counted and digested as they pass."""

    def __init__(self) -> None:
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """A line, whatever it says."""
        self.lines += 1
        self._digest.update(line)

    def count(self, fact: Fact) -> None:
        """A line was this fact."""
        tag = fact.__struct_config__.tag
        assert isinstance(tag, str), "every fact has a name"
        self.counts[tag] += 1

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(self.lines, self._digest.hexdigest())

    def closing(self) -> Closing:
        """What the last line has to say."""
        return Closing(counts=dict(sorted(self.counts.items())), sha256=self._digest.hexdigest())


encode = msgspec.json.Encoder().encode
