# SPDX-License-Identifier: Apache-2.0
"""Run all tests in two lanes side by side: what runs against whole servers, and the rest.

Tests wait for disks, processes and other programs most of the time, so two lanes take little more
than half as long. With arguments there is one lane, and pytest gets the arguments.

    python -m scripts.run_tests FOLDER [ARGUMENT ...]

Everything that tests write goes into the folder; a JUnit file for each lane, which holds names of
tests that look like secrets, stays outside of it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Final

SERVERS: Final = "tests/integration"


def main() -> int:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(exist_ok=True)
    if arguments:
        return _start(folder, "tests", arguments, None).wait()
    with tempfile.TemporaryFile() as output:
        beside = _start(folder, "servers", [SERVERS], output)
        try:
            code = _start(folder, "others", [f"--ignore={SERVERS}"], None).wait()
            print(f"\n... and beside it, {SERVERS}:", flush=True)
            code = beside.wait() or code
        finally:
            beside.terminate()  # does nothing to one that has ended
        output.seek(0)
        sys.stdout.buffer.write(output.read())
    return code


def _start(
    folder: Path, lane: str, arguments: list[str], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "coverage", "run", "-m", "pytest", f"--basetemp={folder / lane}",
        f"--junitxml=.test-results-{lane}.xml", "--durations=5", *arguments,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT if output else None)


if __name__ == "__main__":
    sys.exit(main())
