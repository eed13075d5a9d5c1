# SPDX-License-Identifier: Apache-2.0
"""Programs for Java as Maven brings them: what a small project file names, with all it needs."""

import re
from pathlib import Path
from typing import Final

from scripts.services.obtaining import check_folder, java, program, read_digests, run

COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LIBRARIES: Final = "libs"
JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts sooner, and leaves the second core alone
)


def version_of(artifact: str, pom: Path) -> str:
    """The version of a program that the project file names."""
    found = re.search(rf"{re.escape(artifact)}</artifactId>\s*<version>([\d.]+)<", pom.read_text())
    assert found is not None, f"{pom.name} names no version of {artifact}"
    return found[1]


def copy_jars(pom: Path, digests: Path, folder: Path) -> None:
    """Put all jars that the project file asks for into `libs`; refuse others than were tested."""
    java()
    libraries = folder / LIBRARIES
    copy = [program("mvn"), COPY, "--batch-mode", "--quiet", f"--file={pom}"]
    run([*copy, f"-DoutputDirectory={libraries}", "-DincludeScope=runtime"], folder)
    check_folder(libraries, read_digests(digests))


def java_with_jars(home: Path, *options: str) -> list[str]:
    """Java with these options and all that was copied; the class to run comes after it."""
    jars = sorted(str(path) for path in (home / LIBRARIES).iterdir())
    return [java(), *JVM, *options, "-classpath", ":".join(jars)]
