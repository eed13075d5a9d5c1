# SPDX-License-Identifier: Apache-2.0
"""Makes the images: two bases from Debian's packages, and one image for each name."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from scripts import base_image
from scripts.services import dynamodb_local, kafka_broker
from scripts.services.obtaining import FOLDER, kept

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "deploy" / "compose"
FILES: Final = Path(__file__).resolve().parent
"""The folder with a folder for each image."""
BASES: Final[Mapping[str, Sequence[str]]] = {
    "tidings-base": base_image.PACKAGES,
    "tidings-engines": ("busybox", "caddy", "openjdk-17-jre-headless", "redis-server"),
}
"""Debian's packages in the images that the others are built on."""

_ARCHIVE: Final = "base.tar"
_PROGRAM: Final = "program"


def names() -> dict[str, str]:
    """Return the image of each part: of the base that Tidings is built on, and of each service."""
    dockerfile = (COMPOSE / "Dockerfile").read_text()
    base = re.search(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    assert base is not None, "the Dockerfile names a base"
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    parts = {"caddy": "load-balancer", "dynamodb": "dynamodb", "kafka": "kafka", "redis": "redis"}
    images = {part: str(services[service]["image"]) for part, service in parts.items()}
    return {"python": base[1], **images}


def make(engine: str = "docker") -> None:
    """Make all images with this program."""
    for base, packages in BASES.items():
        files = kept(FOLDER / base, partial(_write_base, packages)) / _ARCHIVE
        subprocess.run([engine, "import", str(files), base], check=True)
    for part, name in names().items():
        with TemporaryDirectory() as folder:
            context = Path(folder) / part
            shutil.copytree(FILES / part, context)
            if part in _PROGRAMS:
                _PROGRAMS[part](context)
            subprocess.run([engine, "build", "--tag", name, str(context)], check=True)


def _write_base(packages: Sequence[str], folder: Path) -> None:
    base_image.write(folder / _ARCHIVE, packages)


def _put_wheels(context: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
    lock, folder = ROOT / "requirements.lock", context / "wheels"
    subprocess.run([*pip, "-r", str(lock), "-d", str(folder)], check=True)


def _put_dynamodb(context: Path) -> None:
    (home,) = dynamodb_local.obtain().glob("package/lib/dynamodb_local_*")
    shutil.copytree(home, context / _PROGRAM)


def _put_kafka(context: Path) -> None:
    shutil.copytree(kafka_broker.obtain() / "libs", context / _PROGRAM / "libs")


_PROGRAMS: Final[dict[str, Callable[[Path], None]]] = {
    "python": _put_wheels,
    "dynamodb": _put_dynamodb,
    "kafka": _put_kafka,
}
"""What is put beside the files of an image before it is built."""
