# SPDX-License-Identifier: Apache-2.0
"""Lists the settings that are in effect, each with its source. Secrets have no value here."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tidings.config.building import CHOICES
from tidings.config.settings import Keys, Network, Process, Section
from tidings.config.values import PARSE
from tidings.ports.processes import Setting

DEFAULT: Final = "default"
_ALWAYS: Final = ((Network, ""), (Process, ""), (Keys, ""))
"""Sections that every process has, with the prefixes of their settings."""


def effective_settings(
    values: Mapping[str, Any], given: Mapping[str, tuple[str, str]]
) -> tuple[Setting, ...]:
    """Return the settings that have an effect, by name.

    `values` are the parsed settings with the defaults of those that choose a section, and `given`
    has the source and the text of each setting that somebody has set.
    """
    defaults = {name: values[name] for name in PARSE if name in values}
    secrets: set[str] = set()
    for section, prefix in _sections(values):
        secrets |= {prefix + name for name in section.secrets}
        for field in msgspec.structs.fields(section):
            if prefix + field.name in PARSE:
                defaults.setdefault(prefix + field.name, field.default)
    return tuple(
        _setting(name, defaults[name], given.get(name), is_secret=name in secrets)
        for name in sorted(defaults)
    )


def _sections(values: Mapping[str, Any]) -> Iterator[tuple[type[Section], str]]:
    yield from _ALWAYS
    for choice in CHOICES:
        if values[choice.setting] == choice.value:
            yield choice.section, choice.prefix


def _setting(
    name: str, default: object, given: tuple[str, str] | None, *, is_secret: bool
) -> Setting:
    source, text = given or (DEFAULT, _as_text(default))
    # An address with an @ may contain a password.
    is_secret = is_secret or (text is not None and "://" in text and "@" in text)
    return Setting(name, None if is_secret else text, source, is_secret)


def _as_text(value: object) -> str | None:
    if value is None or value is msgspec.NODEFAULT or value in ((), {}):
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
