# SPDX-License-Identifier: Apache-2.0
"""Change fragments become a section of the changelog; the version is stated in one place."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from scripts import release_notes
from scripts.release_notes import FragmentMistake, fragments, joined, read, released
from tidings import __version__

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

Words before.

## [Unreleased]

What it brings:

### Added

- Something older.

## [0.1.0] - 2026-11-15

### Added

- All of it.
"""


def a_folder(path: Path, **texts: str) -> Path:
    """Fragments by name; the kind is behind two underscores, since a dot is no part of a name."""
    (path / "README.md").write_text("not a fragment")
    for name, text in texts.items():
        (path / f"{name.replace('__', '.').replace('_', '-')}.md").write_text(text)
    return path


def test_fragments_come_under_their_headings(tmp_path: Path) -> None:
    folder = a_folder(
        tmp_path,
        second__added="One more\nthing.\n",
        first__added="A thing.",
        repair__fixed="Mended.",
    )
    assert read(fragments(folder)) == {
        "Added": ["- A thing.", "- One more thing."],
        "Fixed": ["- Mended."],
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [("thing__new", "A kind that is none."), ("thing", "No kind."), ("thing__added", " \n"),
     ("thing__added", "- With a dash.")],
)  # fmt: skip
def test_a_mistaken_fragment_is_named(tmp_path: Path, name: str, text: str) -> None:
    folder = a_folder(tmp_path, **{name: text})
    with pytest.raises(FragmentMistake, match="thing"):
        read(fragments(folder))


def test_a_release_takes_everything_that_was_unreleased() -> None:
    added = {"Added": ["- Something new."], "When you upgrade": ["- Stop first."]}
    text = released(CHANGELOG, added, "0.2.0", "2026-12-01")
    assert text == CHANGELOG.replace(
        "## [Unreleased]\n\nWhat it brings:\n\n### Added\n\n- Something older.\n",
        "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\nWhat it brings:\n\n"
        "### When you upgrade\n\n- Stop first.\n\n"
        "### Added\n\n- Something older.\n- Something new.\n",
    )


def test_the_first_release_has_no_other_behind_it() -> None:
    text = released("# Changelog\n\n## [Unreleased]\n", {"Added": ["- It."]}, "0.1.0", "2026-12-01")
    assert text.endswith("## [0.1.0] - 2026-12-01\n\n### Added\n\n- It.\n")


def test_headings_of_ones_own_stay() -> None:
    assert joined("### Not yet\n\n- Much.", {}) == "### Not yet\n\n- Much."


def test_the_command_writes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_folder(tmp_path, thing__added="A thing.")
    changelog = tmp_path / "CHANGELOG.txt"
    changelog.write_text("# Changelog\n\n## [Unreleased]\n")
    monkeypatch.setattr(release_notes, "FOLDER", folder)
    monkeypatch.setattr(release_notes, "CHANGELOG", changelog)
    assert release_notes.main([]) == 0
    assert capsys.readouterr().out == "### Added\n\n- A thing.\n"
    assert release_notes.main(["--write"]) == 0
    assert f"## [{__version__}]" in changelog.read_text()
    assert not fragments(folder)
    assert release_notes.main(["--write"]) == 2
    assert "set the next version" in capsys.readouterr().err


def test_the_fragments_of_the_repository_can_be_read() -> None:
    read(fragments(ROOT / "changes"))


@pytest.mark.parametrize("project", [".", "clients/python"])
def test_a_package_takes_its_version_from_the_one_place(project: str) -> None:
    settings = tomllib.loads((ROOT / project / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    path = (ROOT / project / settings["tool"]["hatch"]["version"]["path"]).resolve()
    assert path == ROOT / "src/tidings/__init__.py"
    assert version(settings["project"]["name"]) == __version__, "run make check: it installs anew"
