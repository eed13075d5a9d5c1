# SPDX-License-Identifier: Apache-2.0
"""Installs the other server from the system's packages, without starting it as a service."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.peers.processes import PeerError, is_root

PACKAGES = ("ejabberd", "erlang-p1-pgsql", "postgresql")
_SQL_SCHEMA = Path("/usr/share/ejabberd/sql/pg.sql")
# Debian's way to say that installing a package must not start its service.
_POLICY = Path("/usr/sbin/policy-rc.d")


class Installed(msgspec.Struct, frozen=True):
    """Paths and versions of the installed programs."""

    postgres_bin: Path
    ejabberd_schema: Path
    erlang_libraries: Path
    versions: dict[str, str]


def install() -> Installed:
    """Find the programs; install those that are missing. If that fails, PeerError says what to
    do."""
    missing = [name for name in PACKAGES if not _version(name)]
    if missing:
        _install(missing)
    return Installed(
        _newest("/usr/lib/postgresql", "*/bin/postgres").parent,
        _newest(str(_SQL_SCHEMA.parent), _SQL_SCHEMA.name),
        _newest("/usr/lib", "*/ejabberd-*/ebin/ejabberd.app").parents[2],
        {name: _version(name) for name in (*PACKAGES, "erlang-base")},
    )


def _install(missing: list[str]) -> None:
    command = f"apt-get install {' '.join(missing)}"
    if not Path("/usr/bin/apt-get").exists():
        raise PeerError(f"This needs a system with apt-get, to install {', '.join(missing)}.")
    if not is_root():
        raise PeerError(
            f"{', '.join(missing)} missing, and only root may install: run this as root once, or"
            f" `{command}` yourself, which may start them as services."
        )
    print(f"Installing {', '.join(missing)} ...", flush=True)
    _apt("update")  # a fresh machine has no lists; if it fails, those it has may still do
    with _services_stay_down():
        done = _apt("install", "--yes", "--no-install-recommends", *missing)
    if done.returncode:
        raise PeerError(f"`{command}` failed:\n{done.stdout[-2000:]}")


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextmanager
def _services_stay_down() -> Iterator[None]:
    """Prevent the packages from starting services, because the owner of the machine did not ask for
    a public chat server."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()


def _version(package: str) -> str:
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""  # no Debian: `_install` says what that means
    status, _, version = found.partition(" ")
    return version if status == "installed" else ""


def _newest(folder: str, pattern: str) -> Path:
    found = sorted(Path(folder).glob(pattern))
    if not found:
        raise PeerError(f"The packages are installed, but there is no {folder}/{pattern}.")
    return found[-1]
