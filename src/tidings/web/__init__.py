# SPDX-License-Identifier: Apache-2.0
"""The pages for the browser: plain HTML, CSS and ES modules, nothing loaded from other hosts."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_PAGES: Final = {
    "/": ("landing.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/web/tidings.css": ("tidings.css", "text/css"),
    "/web/docs.js": ("docs.js", "text/javascript"),
    "/web/elements.js": ("elements.js", "text/javascript"),
    "/web/icon.svg": ("icon.svg", "image/svg+xml"),
    "/web/landing.js": ("landing.js", "text/javascript"),
    "/web/schemas.js": ("schemas.js", "text/javascript"),
    "/web/trying.js": ("trying.js", "text/javascript"),
}


def load_pages() -> dict[str, tuple[str, bytes]]:
    """Each page's path, with its media type and its bytes."""
    return {
        path: (media_type, (_FOLDER / name).read_bytes())
        for path, (name, media_type) in _PAGES.items()
    }
