# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, rendered: every object is valid for Kubernetes, and every process would start.

Building helm takes minutes where it is not installed. `tests/unit/test_deploy_files.py` checks what
can be checked without it.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from scripts.services import helm
from scripts.services.obtaining import Unavailable
from tests.support.services import do_without
from tidings.config import load_config

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/tidings"
KEYS = {"root-key": "mF3kq9Zt7Lw2Xb8Vn5Rc1Yd6Hs4Jg0Pa", "master-key": "A" * 43 + "="}
EMBEDDED = ("existingSecret=keys",)
FLEET = (
    "existingSecret=keys",
    "mode=fleet",
    "settings.TIDINGS_DYNAMODB_REGION=eu-central-1",
    "settings.TIDINGS_KAFKA_BOOTSTRAP=kafka:9096",
    "settings.TIDINGS_KAFKA_TLS=on",
    "settings.TIDINGS_REDIS_URL=rediss://redis:6379/0",
    "ingress.enabled=true",
    "ingress.tlsSecret=certificate",
)
Object = dict[str, Any]


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Path:
    try:
        return helm.obtain()
    except Unavailable as error:
        do_without(request.config, "helm", str(error))


def render(program: Path, *values: str) -> list[Object]:
    """The objects that the chart makes with these values."""
    command = [str(program), "template", "test", str(CHART), "--kube-version", helm.KUBERNETES]
    settings = [word for value in values for word in ("--set", value)]
    ended = subprocess.run([*command, *settings], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [made for made in yaml.safe_load_all(ended.stdout) if made]


def mistakes(made: Object, definitions: Object) -> list[str]:
    """What Kubernetes would not accept of an object."""
    group, _, version = made["apiVersion"].rpartition("/")
    name = f"io.k8s.api.{(group or 'core').split('.')[0]}.{version}.{made['kind']}"
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions}
    found = jsonschema_rs.validator_for(schema).iter_errors(made)
    return [f"{made['kind']}: {error.instance_path}: {error.message}" for error in found]


def test_the_chart_has_no_mistake(program: Path) -> None:
    command = [str(program), "lint", "--strict", str(CHART), "--set", EMBEDDED[0]]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("values", [EMBEDDED, FLEET], ids=["embedded", "fleet"])
def test_every_object_is_valid(program: Path, values: tuple[str, ...]) -> None:
    definitions = json.loads(helm.obtain_schemas().read_text())["$defs"]
    made = render(program, *values)
    assert [found for one in made for found in mistakes(one, definitions)] == []
    assert mistakes({**made[-1], "specs": {}}, definitions), "the schemas are strict"


@pytest.mark.parametrize("values", [EMBEDDED, FLEET], ids=["embedded", "fleet"])
def test_every_process_would_start(program: Path, values: tuple[str, ...], tmp_path: Path) -> None:
    pods = [one for one in render(program, *values) if one["kind"] in ("Deployment", "StatefulSet")]
    for pod in pods:
        (container,) = pod["spec"]["template"]["spec"]["containers"]
        given = {}
        for one in container["env"]:
            secret = one.get("valueFrom", {}).get("secretKeyRef")
            if secret is None:
                given[one["name"]] = one["value"]
            elif not secret.get("optional"):
                given[one["name"]] = KEYS[secret["key"]]
        words = container["args"]
        flags = {
            name: words[words.index(f"--{name}") + 1] for name in ("roles",) if f"--{name}" in words
        }
        load_config(flags, given, tmp_path / "tidings.toml")  # raises if a setting is wrong
    assert len(pods) == (4 if values == FLEET else 1)
