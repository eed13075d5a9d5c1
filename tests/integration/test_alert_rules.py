# SPDX-License-Identifier: Apache-2.0
"""Alert rules, checked and tested with the tool of Prometheus."""

import subprocess
from pathlib import Path

import pytest

from scripts.observability.rules import RULES, rule_tests
from scripts.services import promtool
from scripts.services.obtaining import Unavailable
from scripts.write_generated import ROOT
from tests.support.services import do_without


def test_each_alert_fires_during_its_fault_and_clears_afterwards(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    try:
        tool = promtool.obtain()
    except Unavailable as error:
        do_without(request.config, promtool.NAME, str(error))
    tests = tmp_path / "tests.yml"
    tests.write_text(rule_tests(ROOT / RULES))
    for command in (["check", "rules", str(ROOT / RULES)], ["test", "rules", str(tests)]):
        ended = subprocess.run([tool, *command], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
