# SPDX-License-Identifier: Apache-2.0
"""Flags, environment and file made into checked values; every mistake is told at once.

A flag counts before the environment (`TIDINGS_*`), that before `tidings.toml` in the folder the
server is started in. A name that means nothing is a mistake too: it may be one that is misspelt.
"""

import ipaddress
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from tidings.config.values import PARSE, why_weak
from tidings.keyrings.root import read_root_key
from tidings.ports.failpoints import Place
from tidings.ports.secrets import KeyRefused

PREFIX: Final = "TIDINGS_"
FILE_NAME: Final = "tidings.toml"
SECRETS: Final = ("root_key", "master_key", "master_key_previous")

_NOT_YET: Final = re.compile(r"dynamodb_\w+|kafka_\w+|redis_\w+|roles")


class ConfigMistakes(Exception):
    """Everything that is wrong with the settings, in words for the operator."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(f"- {mistake}" for mistake in mistakes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Checked settings."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes any port that is free."""
    data: Path = Path("tidings-data")
    root_key: str | None = field(default=None, repr=False)
    """None: the one kept in the data folder, which is made on the first start."""
    master_key: bytes | None = field(default=None, repr=False)
    """None: the one kept in the data folder, likewise."""
    master_key_previous: bytes | None = field(default=None, repr=False)
    allowed_origins: tuple[str, ...] = ()
    """Browser origins besides this host's own that may open a socket."""
    drain_seconds: float = 5
    log_level: str = "info"
    failpoints: Mapping[Place, int] = field(default_factory=dict)
    store: str = "sqlite"
    bus: str = "memory"
    registry: str = "memory"
    limits: str = "on"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


assert set(PARSE) == {setting.name for setting in fields(Config)}, "every setting is read"


def load_config(
    flags: Mapping[str, str | None], environment: Mapping[str, str], file: Path
) -> Config:
    """The settings of this start.

    Raises:
        ConfigMistakes: With all that is wrong.
    """
    mistakes: list[str] = []
    given = _from_file(file, mistakes)
    given |= _from_environment(environment, mistakes)
    given |= {name: (f"--{name}", value) for name, value in flags.items() if value is not None}
    values: dict[str, Any] = {}
    for name, (source, text) in given.items():
        try:
            values[name] = PARSE[name](text)
        except ValueError as error:
            mistakes.append(f"{source}: {error}")
    config = Config(**values)
    mistakes += _mistakes_between(config)
    if mistakes:
        raise ConfigMistakes(mistakes)
    return config


# --- Where settings come from ------------------------------------------------------------------


def _from_environment(
    environment: Mapping[str, str], mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    given = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        name = name.lower() if name.isupper() else name
        if _is_known(name, variable, mistakes):
            given[name] = (variable, environment[variable])
    return given


def _from_file(file: Path, mistakes: list[str]) -> dict[str, tuple[str, str]]:
    try:
        with file.open("rb") as opened:
            table = tomllib.load(opened)
            mode = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        mistakes.append(f"{file}: {error}")
        return {}
    if mode & 0o077 and any(name in table for name in SECRETS):
        mistakes.append(f"{file} holds a key and may be read by others: chmod 600 {file}")
    given = {}
    for name, value in table.items():
        source = f"{file}: {name}"
        if _is_known(name, source, mistakes):
            text = _as_text(value)
            if text is None:
                mistakes.append(f"{source}: a text, a number or a list of texts is expected")
            else:
                given[name] = (source, text)
    return given


def _as_text(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _is_known(name: str, source: str, mistakes: list[str]) -> bool:
    if name in PARSE:
        return True
    if _NOT_YET.fullmatch(name):
        mistakes.append(f"{source}: this version runs in one process on the embedded store only")
    else:
        known = ", ".join(sorted(PARSE))
        mistakes.append(f"{source}: there is no such setting; there are {known}")
    return False


# --- What settings mean together ---------------------------------------------------------------


def _mistakes_between(config: Config) -> list[str]:
    mistakes = []
    if config.master_key_previous is not None:
        if config.master_key is None:
            mistakes.append("TIDINGS_MASTER_KEY_PREVIOUS means nothing without TIDINGS_MASTER_KEY")
        elif config.master_key == config.master_key_previous:
            mistakes.append("TIDINGS_MASTER_KEY_PREVIOUS is the same as TIDINGS_MASTER_KEY")
    if not config.is_loopback:
        mistakes += _mistakes_in_public(config)
    return mistakes


def _mistakes_in_public(config: Config) -> list[str]:
    mistakes = []
    if config.limits == "off":
        mistakes.append(f"limits off: not on {config.host}, which others can reach")
    try:
        root_key = config.root_key or read_root_key(config.data)
    except KeyRefused as error:
        return [*mistakes, str(error)]
    if root_key is None:
        mistakes.append(
            f"{config.host} can be reached by others, and there is no root key yet: set "
            "TIDINGS_ROOT_KEY (openssl rand -base64 32 makes a good one), or start once on "
            "127.0.0.1, which makes one"
        )
    elif reason := why_weak(root_key):
        mistakes.append(
            f"{config.host} can be reached by others, and the root key is weak: {reason}; "
            "openssl rand -base64 32 makes a good one"
        )
    return mistakes
