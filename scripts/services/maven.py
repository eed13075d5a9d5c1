# SPDX-License-Identifier: Apache-2.0
"""Downloads Java programs with Maven: the packages of a small project file, with dependencies."""

import re
from pathlib import Path
from typing import Final

from scripts.services.obtaining import check_folder, java, program, read_digests, run

COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LIBRARIES: Final = "libs"
JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts faster, and does not use the second core
)


def version_of(artifact: str, pom: Path) -> str:
    """Return the version of a program in the project file."""
    found = re.search(rf"{re.escape(artifact)}</artifactId>\s*<version>([\d.]+)<", pom.read_text())
    assert found is not None, f"{pom.name} names no version of {artifact}"
    return found[1]


def copy_jars(pom: Path, digests: Path, folder: Path) -> None:
    """Put all jars of the project file into `libs`; refuse jars with other digests."""
    java()
    libraries = folder / LIBRARIES
    copy = [program("mvn"), COPY, "--batch-mode", "--quiet", f"--file={pom}"]
    run([*copy, f"-DoutputDirectory={libraries}", "-DincludeScope=runtime"], folder)
    check_folder(libraries, read_digests(digests))


def java_with_jars(home: Path, *options: str) -> list[str]:
    """Return the start of a command: Java with these options and all jars, without the main
    class."""
    jars = sorted(str(path) for path in (home / LIBRARIES).iterdir())
    return [java(), *JVM, *options, "-classpath", ":".join(jars)]
