# SPDX-License-Identifier: Apache-2.0
"""Looks up the locked packages in the list of known vulnerabilities, with pip-audit.

Exit codes: 0 if no vulnerability is known, 1 if one is, 2 if the list could not be read.
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
    """Run pip-audit; return the exit code and the text to print."""
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
    """Return the exit code, and a line for each known vulnerability and each unknown package."""
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        return 2, _not_asked("it knows none of the packages, so it is not where it should be")
    lines = [
        f"{package['name']} {package['version']}: {hole['id']}, "
        f"fixed in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for package in packages
        for hole in package.get("vulns", ())
    ]
    lines += [f"{package['name']}: not looked up, {package['skip_reason']}" for package in skipped]
    if lines:
        return 1, "\n".join(lines)
    return 0, f"{len(packages)} packages, no known vulnerabilities."


def _not_asked(reason: str) -> str:
    return f"The list of known vulnerabilities could not be read, so nothing was checked: {reason}"


if __name__ == "__main__":
    code, text = audit(sys.argv[1])
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)
