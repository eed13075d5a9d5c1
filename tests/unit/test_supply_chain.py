# SPDX-License-Identifier: Apache-2.0
"""What Tidings is built from: pinned by digests, listed, and asked about."""

import json
import re
import stat
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from scripts import audit, sbom

ROOT = Path(__file__).parents[2]


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    assert sbom.main([str(tmp_path / "sbom.json")]) == 0
    found: dict[str, Any] = json.loads((tmp_path / "sbom.json").read_text())
    return found


@pytest.mark.attack("H07")
def test_every_locked_package_is_in_the_bill_of_materials(document: dict[str, Any]) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([^\s\\]+)", lock, re.MULTILINE))
    listed = {one["name"]: one["version"] for one in document["components"]}
    assert listed == locked
    assert len(listed) > 30
    digests = [
        digest["content"]
        for one in document["components"]
        for file in one["externalReferences"]
        for digest in file["hashes"]
    ]
    assert sorted(digests) == sorted(re.findall(r"sha256:([0-9a-f]{64})", lock))


@pytest.mark.parametrize("name", ["", "-traces"])
def test_every_locked_package_has_a_reason(name: str) -> None:
    lock = (ROOT / f"requirements{name}.lock").read_text()
    records = [
        "0007-dependencies.md",
        "0010-libraries-and-services-for-many-machines.md",
    ]
    texts = "".join((ROOT / "docs/decisions" / name).read_text() for name in records)
    rows = re.findall(r"^\| (`[^|]+) \|", texts, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.-]+)`", row)}
    without = set(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==", lock, re.MULTILINE)) - named
    assert not without, f"say in {records[0]} why it is needed: {', '.join(sorted(without))}"


def test_the_document_says_who_needs_what(document: dict[str, Any]) -> None:
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    program = document["metadata"]["component"]
    assert program["name"] == "tidings"
    needs = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    known = {program["bom-ref"]} | {one["bom-ref"] for one in document["components"]}
    assert needs.keys() == known
    assert any(ref.startswith("pkg:pypi/cryptography@") for ref in needs[program["bom-ref"]])
    needed = {ref for refs in needs.values() for ref in refs}
    assert known - needed == {program["bom-ref"]}, "nothing is there that nobody asked for"


def test_the_same_lock_gives_the_same_document(document: dict[str, Any], tmp_path: Path) -> None:
    sbom.main([str(tmp_path / "again.json")])
    assert json.loads((tmp_path / "again.json").read_text()) == document


@pytest.mark.attack("H07")
@pytest.mark.parametrize("name", ["", "-dev", "-audit"])
def test_whatever_is_installed_is_pinned_by_digests(name: str) -> None:
    packages = sbom.read_lock((ROOT / f"requirements{name}.lock").read_text())
    assert packages
    assert [one.name for one in packages if not one.digests] == []
    makefile = (ROOT / "Makefile").read_text()
    assert f"install --quiet --require-hashes -r requirements{name}.lock" in makefile


@pytest.mark.parametrize("name", ["", "-traces", "-dev"])
def test_a_package_is_locked_with_the_extras_that_others_ask_for(name: str) -> None:
    """Otherwise pip takes the newest release of `package[extra]`, and refuses it, because the lock
    has no digest of it."""
    lock = (ROOT / f"requirements{name}.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+\[[\w,]+\])==", lock, re.MULTILINE))
    asked = {
        f"{wanted.name}[{','.join(sorted(wanted.extras))}]"
        for package in sbom.read_lock(lock)
        for wanted in map(Requirement, requires(package.name) or [])
        if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""}))
    }
    assert asked <= locked


def a_program(folder: Path, stdout: str, stderr: str, code: int) -> str:
    path = folder / "pip-audit"
    path.write_text(f"#!/bin/sh\ncat <<'E'\n{stdout}\nE\ncat >&2 <<'E'\n{stderr}\nE\nexit {code}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


HOLE = {"id": "CVE-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}


@pytest.mark.parametrize(
    ("packages", "code", "told"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages, no known vulnerabilities."),
        ([{"name": "a", "version": "1", "vulns": [HOLE]}], 1, "a 1: CVE-1, fixed in 2.0"),
        (
            [{"name": "a", "skip_reason": "unknown"}, {"name": "b", "version": "1", "vulns": []}],
            1,
            "a: not looked up, unknown",
        ),
    ],
)
def test_the_audit_tells_what_is_known(
    tmp_path: Path, packages: list[dict[str, Any]], code: int, told: str
) -> None:
    program = a_program(tmp_path, json.dumps({"dependencies": packages, "fixes": []}), "", code)
    assert audit.audit(program) == (code, told)


def test_an_audit_that_could_not_ask_says_so(tmp_path: Path) -> None:
    code, told = audit.audit(a_program(tmp_path, "", "ConnectionError: unreachable", 1))
    assert code == 2
    assert "nothing was checked: ConnectionError: unreachable" in told
    nobody = {"dependencies": [{"name": "a", "skip_reason": "unknown"}], "fixes": []}
    code, told = audit.audit(a_program(tmp_path, json.dumps(nobody), "", 0))
    assert code == 2
    assert "nothing was checked: it knows none of the packages" in told
