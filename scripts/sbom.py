# SPDX-License-Identifier: Apache-2.0
"""Writes a bill of materials of Tidings, in the CycloneDX format, from the lock file.

The lock names each package with its version, the digests of its files, and the packages that
require it. All of this is in the result. The same lock gives the same result, byte for byte.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements.lock"
VERSION: Final = ROOT / "src/tidings/__init__.py"
RESULT: Final = "sbom.json"
SPECIFICATION: Final = "1.6"

_PACKAGE: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]+\])?==([^\s;\\]+)")
_DIGEST: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ASKED_BY: Final = re.compile(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(slots=True)
class Package:
    """One package of the lock."""

    name: str
    version: str
    digests: list[str] = field(default_factory=list)
    asked_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """The package URL, which identifies the package in other tools."""
        return f"pkg:pypi/{_normal(self.name)}@{self.version}"


def read_lock(text: str) -> list[Package]:
    """Return the packages of a lock file, in the order of the file."""
    packages: list[Package] = []
    for line in text.splitlines():
        if found := _PACKAGE.match(line):
            packages.append(Package(found[1], found[2]))
        elif packages and (found := _ASKED_BY.match(line)) and found[1] != "via":
            packages[-1].asked_by.append(_normal(found[1]))
        if packages:
            packages[-1].digests += _DIGEST.findall(line)
    return packages


def bill_of_materials(packages: Iterable[Package], name: str, version: str) -> dict[str, Any]:
    """Return the document for a program with this name and version."""
    known = list(packages)
    program = f"pkg:pypi/{_normal(name)}@{version}"
    digest = sha256(repr([(one.purl, one.digests) for one in known]).encode()).hexdigest()
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'{program}#{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": name,
                "version": version,
                "purl": program,
            }
        },
        "components": [_component(package) for package in known],
        "dependencies": _dependencies(known, _normal(name), program),
    }


def _component(package: Package) -> dict[str, Any]:
    # The lock has the digests of all files of a package; an installation downloads one of them.
    files = [
        {
            "type": "distribution",
            "url": package.purl,
            "comment": f"file {number} of {len(package.digests)}",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for number, digest in enumerate(package.digests, 1)
    ]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "externalReferences": files,
    }


def _dependencies(packages: list[Package], name: str, program: str) -> list[dict[str, Any]]:
    references = {name: program} | {_normal(one.name): one.purl for one in packages}
    needs: dict[str, set[str]] = {reference: set() for reference in references.values()}
    for package in packages:
        for asker in package.asked_by:
            needs[references[asker]].add(package.purl)
    return [{"ref": one, "dependsOn": sorted(needed)} for one, needed in needs.items()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version() -> str:
    """Return the version, without importing Tidings, which need not be installed."""
    found = re.search(r'^__version__ = "(.+)"$', VERSION.read_text(), re.MULTILINE)
    assert found is not None, f"{VERSION} states no version"
    return found[1]


def main(arguments: list[str]) -> int:
    """Write the document to the given file, or to sbom.json."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = read_lock(LOCK.read_text())
    document = bill_of_materials(packages, project["name"], _version())
    path = Path(arguments[0] if arguments else RESULT)
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{path}: {len(packages)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
