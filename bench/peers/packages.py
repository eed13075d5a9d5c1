# SPDX-License-Identifier: Apache-2.0
"""Installs ejabberd and PostgreSQL from the system's packages, without starting them as
services."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.peers.processes import PeerError, is_root

EJABBERD = ("ejabberd", "erlang-p1-pgsql")
POSTGRES = ("postgresql",)
LOCK_SECONDS_MAX = 300
"""Time to wait for another installation on this machine to end."""
_SQL_SCHEMA = Path("/usr/share/ejabberd/sql/pg.sql")
# Debian's way to say that installing a package must not start its service.
_POLICY = Path("/usr/sbin/policy-rc.d")


class Installed(msgspec.Struct, frozen=True):
    """Paths of the programs and files of ejabberd and PostgreSQL."""

    postgres_bin: Path
    ejabberd_schema: Path
    erlang_libraries: Path


def install_ejabberd() -> Installed:
    """Find ejabberd and PostgreSQL; install what is missing."""
    _install_missing(EJABBERD)
    return Installed(
        install_postgres(),
        _newest(str(_SQL_SCHEMA.parent), _SQL_SCHEMA.name),
        _newest("/usr/lib", "*/ejabberd-*/ebin/ejabberd.app").parents[2],
    )


def install_postgres() -> Path:
    """Return the folder with the programs of PostgreSQL; install them if they are missing."""
    _install_missing(POSTGRES)
    return _newest("/usr/lib/postgresql", "*/bin/postgres").parent


def versions() -> dict[str, str]:
    """Return the versions of the installed packages."""
    found = {name: _version(name) for name in (*EJABBERD, *POSTGRES, "erlang-base")}
    return {name: version for name, version in found.items() if version}


def _install_missing(packages: Sequence[str]) -> None:
    """Install packages that are not installed. If that fails, PeerError says what to do."""
    if missing := [name for name in packages if not _version(name)]:
        _install(missing)


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
        ["apt-get", "--option", f"DPkg::Lock::Timeout={LOCK_SECONDS_MAX}", *arguments],
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
