# SPDX-License-Identifier: Apache-2.0
"""Makes a base image from Debian's packages, where no registry of images can be reached.

`python -m scripts.base_image` makes the image `tidings-base`. Build Tidings on it with
`podman build --build-arg BASE=localhost/tidings-base -f deploy/compose/Dockerfile -t tidings .`
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

NAME: Final = "localhost/tidings-base"
SUITE: Final = "bookworm"
"""The Debian release, whose Python is 3.11."""
PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")


def make(name: str = NAME, engine: str = "podman") -> None:
    """Make the image and import it."""
    with TemporaryDirectory() as folder:
        files = Path(folder) / "base.tar"
        write(files)
        subprocess.run([engine, "import", str(files), name], check=True)


def write(files: Path, packages: Sequence[str] = PACKAGES) -> None:
    """Write an archive with these packages and what they need, with mmdebstrap of Debian."""
    variant = ["--variant=minbase", f"--include={','.join(packages)}"]
    subprocess.run(["mmdebstrap", "--quiet", *variant, SUITE, str(files)], check=True)


if __name__ == "__main__":
    make(*sys.argv[1:])
