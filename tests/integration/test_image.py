# SPDX-License-Identifier: Apache-2.0
"""The image is built and serves: without rights, on a root that cannot be written, with its bill.

These tests need podman, runc and mmdebstrap, packages of Debian, and take minutes. They use no
registry of images: the base is made from Debian's packages, and pip gets wheels from a folder.
"""

import json
import secrets
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from scripts import base_image
from scripts.services.ports import free_port
from tests.support.waiting import WAIT_SECONDS, until
from tidings import __version__

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy/compose/Dockerfile"
PODMAN = ("podman", "--runtime=runc", "--cgroup-manager=cgroupfs")
RIGHTS = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")


def podman(*words: str) -> str:
    """Run podman; return what it prints."""
    ended = subprocess.run([*PODMAN, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the image, built from this clone."""
    missing = [name for name in ("podman", "runc", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("image")
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
    subprocess.run([*pip, "-r", ROOT / "requirements.lock", "-d", wheels], check=True)
    (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    base, name = (f"localhost/tidings-{part}:{uuid4().hex[:8]}" for part in ("base", "test"))
    base_image.make(base)
    podman(
        "build",
        "--isolation=chroot",
        f"--build-arg=BASE={base}",
        f"--volume={wheels}:/wheels:ro",
        f"--volume={folder / 'pip.conf'}:/etc/pip.conf:ro",
        f"--ignorefile={DOCKERFILE}.dockerignore",
        f"--file={DOCKERFILE}",
        f"--tag={name}",
        str(ROOT),
    )
    yield name
    podman("rmi", "--force", name, base)


def run(image: str, *words: str, program: str) -> str:
    return podman(
        "run", "--rm", "--network=none", *RIGHTS, *LIMITS, f"--entrypoint={program}", image, *words
    )


def test_it_runs_without_rights_and_knows_what_is_in_it(image: str) -> None:
    assert run(image, "version", program="tidings").strip() == f"tidings {__version__}"
    assert run(image, "-u", program="id").strip() == "10001"
    path = podman("inspect", "--format", '{{index .Labels "dev.tidings.sbom"}}', image).strip()
    bill = json.loads(run(image, path, program="cat"))
    assert bill["bomFormat"] == "CycloneDX"
    installed = run(image, "-m", "pip", "freeze", "--all", program="/opt/tidings/bin/python")
    names = {line.split("==")[0].lower().replace("_", "-") for line in installed.splitlines()}
    listed = {one["name"].lower().replace("_", "-") for one in bill["components"]}
    assert {name for name in names if " @ " not in name} <= listed | {"pip", "setuptools"}


async def test_it_serves_and_stops(image: str) -> None:
    port, name = free_port(), f"tidings-{uuid4().hex[:8]}"
    keys = {
        "TIDINGS_ROOT_KEY": secrets.token_urlsafe(32),
        "TIDINGS_MASTER_KEY": b64encode(secrets.token_bytes(32)).decode(),
        "TIDINGS_SMS": "off",
    }
    settings = [f"--env={key}={value}" for key, value in keys.items()]
    place = ["--network=host", "--tmpfs=/tmp", f"--name={name}", "--detach"]
    podman("run", *place, *RIGHTS, *LIMITS, *settings, image, "serve", "--port", str(port))
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:

            async def is_ready() -> bool:
                try:
                    return (await client.get(f"http://127.0.0.1:{port}/readyz")).is_success
                except httpx.TransportError:
                    return False

            await until(is_ready, describe=lambda: podman("logs", name))
        podman("stop", "--time=60", name)
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"
    finally:
        podman("rm", "--force", "--volumes", name)
