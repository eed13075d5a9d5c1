# SPDX-License-Identifier: Apache-2.0
"""Pages on the site, and the generated parts of pages."""

from pathlib import Path

import pytest

from scripts import command_line_page, package_picture
from scripts.docs_site import INDEX, OUTSIDE, linked, navigation

ROOT = Path(__file__).resolve().parents[2]


def pages_of(navigation: object) -> list[str]:
    match navigation:
        case str(page):
            return [page]
        case dict():
            return [page for part in navigation.values() for page in pages_of(part)]
        case list():
            return [page for part in navigation for page in pages_of(part)]
        case _:
            raise AssertionError(navigation)


def test_every_page_is_in_the_index_once() -> None:
    listed = pages_of(navigation((ROOT / INDEX).read_text()))
    there = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*there, *OUTSIDE.values()]), "list it in docs/README.md"


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("[a chat](../concepts/chat-log.md#sending)", "[a chat](../concepts/chat-log.md#sending)"),
        ("[the tour](../../README.md#run)", "[the tour](../project/tour.md#run)"),
        ("[`limits.py`](../../src/tidings/model/limits.py)", "`limits.py`"),
        ("[below](#sizes)", "[below](#sizes)"),
        ("[a page](https://example.com/x)", "[a page](https://example.com/x)"),
        ("[lost](../nowhere.txt)", "[lost](../nowhere.txt)"),
        ("![a chart](../operations/throughput.svg)", "![a chart](../operations/throughput.svg)"),
    ],
)
def test_links_lead_to_where_the_site_has_it(link: str, found: str) -> None:
    assert linked(link, "docs/reference/limits.md") == found


def test_pages_from_outside_are_linked_too() -> None:
    text = linked("[words](docs/concepts/words.md), [security](SECURITY.md)", "README.md")
    assert text == "[words](../concepts/words.md), [security](security.md)"


def test_the_page_has_every_command() -> None:
    page = (ROOT / command_line_page.PAGE).read_text()
    for name in ("tidings chat", "tidings bench", "tidings capacity"):
        assert f"<!-- generated: {name} -->" in page
    without = page.replace("<!-- generated: tidings chat -->", "")
    with pytest.raises(ValueError, match="tidings chat"):
        command_line_page.filled_in(without)


def test_the_picture_has_every_package() -> None:
    layers = package_picture.layers()
    names = {name for layer in layers for name in layer}
    source = ROOT / "src/tidings"
    there = {path.parent.name for path in source.glob("*/__init__.py")}
    there |= {path.stem for path in source.glob("*.py")} - {"__init__"}
    assert names == there
    picture = package_picture.picture(layers)
    assert picture.index("\ncli ") < picture.index("\nactions ") < picture.index("\nmodel ")
