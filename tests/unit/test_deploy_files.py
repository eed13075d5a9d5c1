# SPDX-License-Identifier: Apache-2.0
"""The systemd units and the Helm chart, as far as they can be read without a cluster."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.settings import config_of
from tidings import __version__
from tidings.cli.command_line import make_parser

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy/systemd").iterdir())
CHART = ROOT / "deploy/helm/tidings"
EXPOSURE_MAX = "20"
"""Of 100; a service without restrictions has 96."""


def lines(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_that_exists(unit: Path) -> None:
    for command in (*lines(unit, "ExecStart"), *lines(unit, "ExecStartPre")):
        program, *words = command.split()
        assert program == "/opt/tidings/.venv/bin/tidings"
        make_parser().parse_args(words)


def test_the_service_stops_later_than_it_drains() -> None:
    (service,) = [unit for unit in UNITS if unit.name == "tidings.service"]
    (seconds,) = lines(service, "TimeoutStopSec")
    assert int(seconds) >= config_of().process.drain_seconds + 20
    assert lines(service, "RestartPreventExitStatus") == ["2"]


def test_systemd_finds_no_mistake_and_little_exposure(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    for unit in UNITS:
        text = unit.read_text().replace("/opt/tidings/.venv/bin/tidings", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    made = [str(tmp_path / unit.name) for unit in UNITS]
    limit = ["security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager"]
    for words in (["verify", *made], [*limit, str(tmp_path / "tidings.service")]):
        ended = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_pods_have_no_rights() -> None:
    text = (CHART / "templates/_helpers.tpl").read_text()
    for right in (
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "capabilities: { drop: [ALL] }",
        "automountServiceAccountToken: false",
    ):
        assert right in text
    containers = re.findall(r"^ +- name: (?:tidings|schema)$", text, re.MULTILINE)
    assert len(containers) <= text.count("containerSecurity")


def test_every_value_of_the_chart_is_used() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    roles = {"gateway", "api", "worker", "relay"}  # used by name, in a loop
    for section, content in values.items():
        names = content if isinstance(content, dict) and section != "settings" else {}
        for name in names.keys() - roles:
            assert f".Values.{section}.{name}" in text, f"{section}.{name}"
        assert f".Values.{section}" in text, section
