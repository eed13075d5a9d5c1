# SPDX-License-Identifier: Apache-2.0
"""Root key in the file `root.key` beside the data, and the check for keys easy to guess."""

import re
from base64 import urlsafe_b64encode
from itertools import pairwise
from pathlib import Path
from typing import Final

from tidings.keyrings import private_file
from tidings.model.setup_error import SetupError
from tidings.ports.world import Chance

CHARS_MIN: Final = 32
VARIETY_MIN: Final = 10
TRIPLES_MIN: Final = 0.75
"""Share of distinct triples of characters; 0.99 in random hex."""
STEPS_MAX: Final = 0.5
"""Share of characters adjacent to their predecessor in the alphabet; 0.13 in random hex."""

_PLACEHOLDER: Final = re.compile(
    "change[-_]?me|password|passwort|placeholder|example|insecure|default|qwerty", re.IGNORECASE
)

MAKES_A_GOOD_ONE: Final = "openssl rand -base64 32 makes a good one"


def why_weak(secret: str) -> str | None:
    """Return why a secret is easy to guess, without repeating it; None if no reason is found."""
    if len(secret) < CHARS_MIN:
        return f"it has {len(secret)} characters, fewer than {CHARS_MIN}"
    if len(set(secret)) < VARIETY_MIN:
        return f"it is made of fewer than {VARIETY_MIN} different characters"
    triples = [secret[at : at + 3] for at in range(len(secret) - 2)]
    is_repeated = secret in (secret + secret)[1:-1]
    if is_repeated or len(set(triples)) < TRIPLES_MIN * len(triples):
        return "it is a shorter text repeated"
    pairs = list(pairwise(secret))
    steps = sum(abs(ord(after) - ord(before)) <= 1 for before, after in pairs)
    if steps > STEPS_MAX * len(pairs):
        return "its characters follow each other in the alphabet"
    if _PLACEHOLDER.search(secret):
        return "it contains a word from examples, such as password or change-me"
    return None


FILE_NAME: Final = "root.key"
_SECRET_BYTES: Final = 32


def read_root_key(folder: Path) -> str | None:
    """Return the root key stored in the folder; None if there is none.

    Raises:
        SetupError: Others may read its file, it is not a single line, or the key is weak.
    """
    path = folder / FILE_NAME
    text = private_file.read(path)
    if text is None:
        return None
    key = text.strip()
    if not key or len(key.split()) != 1:
        raise SetupError(f"{path} does not contain exactly one key on one line")
    if reason := why_weak(key):
        raise SetupError(
            f"the root key in {path} is weak: {reason}; {MAKES_A_GOOD_ONE}, and if the file is "
            "deleted, the next start creates a key"
        )
    return key


def ensure_root_key(folder: Path, chance: Chance) -> str:
    """Return the root key stored in the folder; a missing key is created.

    Raises:
        SetupError: As in `read_root_key`, or the file cannot be written.
    """
    key = read_root_key(folder)
    if key is None:
        fresh = urlsafe_b64encode(chance.token(_SECRET_BYTES)).decode().rstrip("=")
        private_file.make(folder / FILE_NAME, f"{fresh}\n")
        key = read_root_key(folder)
        assert key is not None, "the key file was just written"
    return key
