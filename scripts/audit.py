# SPDX-License-Identifier: Apache-2.0
"""Asks pip-audit whether holes are known in the locked packages, and tells what came out.

Exit codes: 0 nothing is known, 1 something is, 2 the question could not be asked.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements.lock"
SECONDS_MAX: Final = 300.0

_SAID_CHARACTERS_MAX: Final = 300


def audit(program: str) -> tuple[int, str]:
    """The exit code, and what to tell."""
    command = [program, "--requirement", str(LOCK), "--require-hashes", "--disable-pip"]
    try:
        ended = subprocess.run(
            [*command, "--progress-spinner", "off", "--format", "json"],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 2, _not_asked("it did not answer in time")
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        return 2, _not_asked(" ".join(ended.stderr.split())[-_SAID_CHARACTERS_MAX:])
    return tell(answer["dependencies"])


def tell(packages: list[dict[str, Any]]) -> tuple[int, str]:
    """A line for each hole that is known, and for each package that nobody knows of."""
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        return 2, _not_asked("it knows none of the packages, so it is not where it should be")
    lines = [
        f"{package['name']} {package['version']}: {hole['id']}, "
        f"mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for package in packages
        for hole in package.get("vulns", ())
    ]
    lines += [f"{package['name']}: not looked up, {package['skip_reason']}" for package in skipped]
    if lines:
        return 1, "\n".join(lines)
    return 0, f"{len(packages)} packages, no known holes."


def _not_asked(reason: str) -> str:
    return f"The list of known holes could not be asked, so nothing was checked: {reason}"


if __name__ == "__main__":
    code, text = audit(sys.argv[1])
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)
