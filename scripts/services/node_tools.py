# SPDX-License-Identifier: Apache-2.0
"""Node, and the tools for work on the JavaScript client: formatter, type checker, bundler."""

import hashlib
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from scripts.services.obtaining import FOLDER, Unavailable, kept, program, run

NAME: Final = "Node tools"
REACT_NAME: Final = "React"
CLIENT: Final = Path(__file__).parents[2] / "clients" / "js"
REACT: Final = CLIENT.with_name("react")
NODE_VERSION_MIN: Final = 20

_MANIFESTS: Final = ("package.json", "package-lock.json")


def obtain(package: Path = CLIENT) -> Path:
    """Return the folder with the programs that the package's lock file names, installed if needed.

    The folder is outside the package's own folder, so that no tool can become part of a release.
    """
    digest = hashlib.sha256()
    for name in _MANIFESTS:
        digest.update((package / name).read_bytes())
    node()
    folder = FOLDER / f"node-tools-{digest.hexdigest()[:12]}"
    return kept(folder, partial(_build, package), "npm") / "node_modules" / ".bin"


def node() -> str:
    """Return the path of a Node that is new enough."""
    path = program("node")
    version = re.match(r"v(\d+)", run([path, "--version"], CLIENT))
    if version is None or int(version[1]) < NODE_VERSION_MIN:
        raise Unavailable(f"Node {NODE_VERSION_MIN} or newer is not installed")
    return path


def _build(package: Path, folder: Path) -> None:
    for name in _MANIFESTS:
        shutil.copy(package / name, folder)
    run([program("npm"), "ci", "--silent", "--no-audit", "--no-fund"], folder)
