# SPDX-License-Identifier: Apache-2.0
"""Hooks for MkDocs, which make a site of the pages as they are in the repository.

On a code host, every link to a file works. On the site, only links to pages work. Links to pages
outside of docs/ therefore lead to copies of these pages, and links to source files become plain
text. The navigation comes from docs/README.md, so that each page is listed in one place only.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
INDEX: Final = "docs/README.md"
OUTSIDE: Final = {
    "README.md": "project/tour.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changes.md",
    "RELEASING.md": "project/releasing.md",
    "changes/README.md": "project/change-fragments.md",
    "clients/js/README.md": "project/javascript-client.md",
    "clients/python/README.md": "project/python-client.md",
    "clients/react/README.md": "project/react.md",
    "clients/spec/README.md": "project/transcripts.md",
    "deploy/compose/README.md": "project/compose.md",
    "examples/README.md": "project/examples.md",
    "examples/embed_chat/README.md": "project/embed-chat.md",
    "examples/express_backend/README.md": "project/express-backend.md",
    "examples/fastapi_backend/README.md": "project/fastapi-backend.md",
    "examples/first_notification/README.md": "project/first-notification.md",
    "examples/sign_in/README.md": "project/sign-in.md",
}
"""Pages outside of docs/, each with its path on the site."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LISTED: Final = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)", re.MULTILINE)


def place_of(path: str) -> str | None:
    """Return the path on the site of a file in the repository; None if the site lacks the file."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return OUTSIDE.get(path)


def linked(markdown: str, path: str) -> str:
    """Return a page of the repository with links that work on the site."""
    own = place_of(path)
    assert own is not None, f"the site has no {path}"

    def relink(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or "://" in target:
            return link[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        there = place_of(found)
        if there is None:
            return link[0] if not (ROOT / found).exists() else text
        return f"{image}[{text}]({posixpath.relpath(there, posixpath.dirname(own))}{anchor})"

    return _LINK.sub(relink, markdown)


def navigation(index: str) -> list[dict[str, Any]]:
    """Return the sections of the index with their pages, then the pages about the project."""
    found: list[dict[str, Any]] = [{"Documentation": "README.md"}]
    parts = _HEADING.split(index)
    seen: set[str] = set()
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        pages = []
        for name, target, anchor in _LISTED.findall(text):
            page = place_of(posixpath.normpath(posixpath.join("docs", target)))
            if page is not None and page not in seen and not anchor:
                seen.add(page)
                pages.append({name: page})
            if page == "operations/benchmarks.md":
                pages.append({"Lab book": "operations/lab-book.md"})
        found.append({title: pages})
    rest = [page for page in OUTSIDE.values() if page not in seen]
    return [*found, {"Project": rest}]


# Functions that MkDocs calls.


def on_config(config: Any) -> Any:
    """Take the navigation from the index."""
    config.nav = navigation((ROOT / INDEX).read_text(encoding="utf-8"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside of docs/."""
    from mkdocs.structure.files import File

    for path, page in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=linked(text, path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Correct the links of the pages in docs/; the others are correct already."""
    source: str = page.file.src_uri
    return markdown if source in OUTSIDE.values() else linked(markdown, f"docs/{source}")
