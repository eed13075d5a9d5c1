# SPDX-License-Identifier: Apache-2.0
"""Builds Docker Compose, a plugin of Docker, which takes minutes: only long tests do it."""

from pathlib import Path
from typing import Final

from scripts.services.go_programs import GoModule
from scripts.services.go_programs import obtain as obtain_programs

PLUGIN: Final = "docker-compose"
"""Name by which Docker finds the program among its plugins."""
MODULE: Final = GoModule(
    "github.com/docker/compose/v2",
    "v2.40.3",
    "h1:XeYkQu1svDtyfZPv5nTwFryQ25ZJMkIlc4pz9HalMPI=",
    {PLUGIN: "./cmd"},
)


def obtain() -> Path:
    """Return the path of the program; build it if necessary."""
    return obtain_programs(MODULE) / PLUGIN
