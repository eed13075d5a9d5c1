# SPDX-License-Identifier: Apache-2.0
"""Loads settings from flags, environment and file, checks them, and reports all mistakes at once.

A flag has precedence over the environment (`TIDINGS_*`), which has precedence over `tidings.toml`
in the working directory. An unknown name is a mistake too, because it may be misspelt.
"""

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tidings.config.addresses import FILE_SUFFIX, secrets_in_files
from tidings.config.building import CHOICES, Choice, make_config, with_defaults
from tidings.config.checks import ParsedSettings, combined_mistakes
from tidings.config.effective import effective_settings
from tidings.config.settings import Config
from tidings.config.values import PARSE
from tidings.model.setup_error import SetupError

PREFIX: Final = "TIDINGS_"
FILE_NAME: Final = "tidings.toml"
SECRETS: Final = (
    "root_key",
    "master_key",
    "master_key_previous",
    "kafka_password",
    "redis_password",
    "push_secret",
    "push_secret_previous",
    "sms_secret",
    "sms_secret_previous",
    "smtp_password",
)
"""Settings that may also be in a separate file, whose path is the setting `<name>_file`."""

_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables from which AWS tools read the region."""


class WrongSettings(SetupError):
    """At least one setting is wrong; the text lists all mistakes."""

    def __init__(self, mistakes: list[str]) -> None:
        listed = "\n".join(f"- {mistake}" for mistake in mistakes)
        super().__init__(f"the configuration is not valid:\n{listed}")
        self.mistakes = mistakes


def load_config(
    flags: Mapping[str, str | None], environment: Mapping[str, str], file: Path
) -> Config:
    """Return the checked settings.

    Raises:
        WrongSettings: At least one setting is wrong.
    """
    mistakes: list[str] = []
    given = _from_file(file, mistakes)
    given |= _from_environment(environment, mistakes)
    given |= {name: (_flag(name), value) for name, value in flags.items() if value is not None}
    given = secrets_in_files(given, mistakes)
    for choice in CHOICES:
        if given.get(choice.setting, ("", ""))[1].lower() == choice.value:
            given = _region(environment, choice) | given
    values: dict[str, Any] = {}
    for name, (source, text) in given.items():
        try:
            values[name] = PARSE[name](text)
        except ValueError as error:
            mistakes.append(f"{source}: {error}")
    wrong = given.keys() - values.keys()
    completed = with_defaults(values)
    mistakes += combined_mistakes(ParsedSettings(completed, given, wrong))
    if mistakes:
        raise WrongSettings(mistakes)
    return replace(make_config(values), settings=effective_settings(completed, given))


# --- Where settings come from ------------------------------------------------------------------


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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


def _region(environment: Mapping[str, str], choice: Choice) -> dict[str, tuple[str, str]]:
    """Return the region from an environment variable of AWS tools, as a setting of a section."""
    for name, field in choice.settings():
        if field == "region":
            for variable in _REGIONS:
                if environment.get(variable):
                    return {name: (variable, environment[variable])}
    return {}


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
    if mode & 0o077 and _has_secret(table):
        mistakes.append(f"{file} contains a key and can be read by others: chmod 600 {file}")
    given = {}
    for name, value in table.items():
        source = f"{file}: {name}"
        if _is_known(name, source, mistakes):
            text = _as_text(value)
            if text is None:
                mistakes.append(f"{source}: a string, a number or a list of strings is expected")
            else:
                given[name] = (source, text)
    return given


def _has_secret(table: Mapping[str, object]) -> bool:
    return any(name in table for name in SECRETS) or "@" in str(table.get("redis_url", ""))


def _as_text(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _is_known(name: str, source: str, mistakes: list[str]) -> bool:
    if name in PARSE or name.removesuffix(FILE_SUFFIX) in SECRETS:
        return True
    known = ", ".join(sorted(PARSE))
    mistakes.append(f"{source}: there is no such setting; the settings are {known}")
    return False
