# SPDX-License-Identifier: Apache-2.0
"""Finds secrets that are easy to guess: too short, repeated, in sequence, or left from an example.

No test can prove that a text is random. These rules refuse what people type by hand or forget to
replace; 32 random bytes in base64 or hex pass all of them.
"""

import re
from itertools import pairwise
from typing import Final

CHARS_MIN: Final = 32
VARIETY_MIN: Final = 10
TRIPLES_MIN: Final = 0.75
"""Different runs of three characters among all of them; 0.99 in random hex."""
STEPS_MAX: Final = 0.5
"""Share of characters that follow the one before them in the alphabet; 0.13 in random hex."""

_PLACEHOLDER: Final = re.compile(
    "change[-_]?me|password|passwort|placeholder|example|insecure|default|qwerty", re.IGNORECASE
)

MAKES_A_GOOD_ONE: Final = "openssl rand -base64 32 makes a good one"


def why_weak(secret: str) -> str | None:
    """What makes a secret easy to guess; None if nothing was found. Never repeats the secret."""
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
        return "it holds a word of examples, such as password or change-me"
    return None
