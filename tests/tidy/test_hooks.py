# SPDX-License-Identifier: Apache-2.0
"""The hooks that run before a commit use the pinned tools and fetch nothing."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_hooks_are_local_and_use_the_pinned_tools() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [repository] = settings["repos"]
    assert repository["repo"] == "local", "a hook from elsewhere would be fetched"
    for hook in repository["hooks"]:
        assert hook["language"] == "system", f"{hook['id']}: another language installs something"
        assert hook["entry"].startswith(".venv/bin/"), f"{hook['id']}: use the tool of .venv"
