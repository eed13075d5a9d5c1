# SPDX-License-Identifier: Apache-2.0
"""Joins the change fragments into the changelog.

`python -m scripts.release_notes` prints the notes of the next release. With `--write`, it moves the
fragments into CHANGELOG.md, under the version and the date, and deletes them.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tidings import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "changes"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
KINDS: Final[Mapping[str, str]] = {
    "upgrade": "When you upgrade",
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
    "removed": "Removed",
}
"""The kinds of fragments, each with its heading in the changelog."""

_NAME: Final = re.compile(r"[a-z0-9-]+\.(\w+)\.md")
_UNRELEASED: Final = "## [Unreleased]"


class FragmentMistake(Exception):
    """A fragment cannot be used; the text tells its author the reason."""


def fragments(folder: Path) -> list[Path]:
    """Return the fragments in a folder, in the order of their names."""
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


def read(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Return the text of each fragment as a line of the changelog, by heading.

    Raises:
        FragmentMistake: A fragment has no text, or its name contains no kind.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        name = _NAME.fullmatch(path.name)
        if name is None or name[1] not in KINDS:
            raise FragmentMistake(
                f"{path.name}: name it <what>.<kind>.md; kinds: {', '.join(KINDS)}"
            )
        text = " ".join(path.read_text(encoding="utf-8").split())
        if not text or text.startswith("- "):
            raise FragmentMistake(f"{path.name}: write a paragraph, without a dash before it")
        found.setdefault(KINDS[name[1]], []).append(f"- {text}")
    return found


def joined(unreleased: str, added: Mapping[str, list[str]]) -> str:
    """Return the notes: the text that is already under Unreleased, with the fragments added."""
    parts = re.split(r"^### (.+)$", unreleased, flags=re.MULTILINE)
    sections = {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    for title in dict.fromkeys([*KINDS.values(), *sections]):
        lines = [sections.pop(title, ""), *added.get(title, ())]
        sections[title] = "\n".join(line for line in lines if line)
    written = [f"### {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n\n".join(part for part in [parts[0].strip(), *written] if part)


def released(changelog: str, added: Mapping[str, list[str]], version: str, day: str) -> str:
    """Return the changelog with a section for the release, and nothing under Unreleased."""
    before, _, rest = changelog.partition(f"{_UNRELEASED}\n")
    earlier = re.search(r"^## \[", rest, re.MULTILINE)
    end = earlier.start() if earlier else len(rest)
    notes = joined(rest[:end], added)
    return (
        f"{before}{_UNRELEASED}\n\n## [{version}] - {day}\n\n{notes}\n\n{rest[end:]}".rstrip()
        + "\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the notes, or write them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release_notes", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write CHANGELOG.md")
    options = parser.parse_args(arguments)
    paths = fragments(FOLDER)
    try:
        added = read(paths)
    except FragmentMistake as mistake:
        print(mistake, file=sys.stderr)
        return 2
    if not options.write:
        print(joined("", added))
        return 0
    changelog = CHANGELOG.read_text(encoding="utf-8")
    if f"## [{__version__}]" in changelog:
        print(f"{__version__} is in the changelog already: set the next version", file=sys.stderr)
        return 2
    today = datetime.now(UTC).date().isoformat()
    CHANGELOG.write_text(released(changelog, added, __version__, today), encoding="utf-8")
    for path in paths:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
