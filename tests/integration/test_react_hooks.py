# SPDX-License-Identifier: Apache-2.0
"""The React hooks: their own tests with the JavaScript client, their size, and types of both."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Final

import pytest

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from tests.support.node import run_in
from tests.support.services import do_without

SIZE_MAX: Final = 1_000
"""Bytes that the hooks add to a page, compressed."""
FILES: Final = ("src", "test", "package.json", "tsconfig.json", ".prettierrc.json")


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> Path:
    """The folder with the programs."""
    try:
        return node_tools.obtain(node_tools.REACT)
    except Unavailable as error:
        do_without(request.config, node_tools.REACT_NAME, str(error))


@pytest.fixture(scope="module")
def package(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as an application has it: beside React and the client."""
    clients = tmp_path_factory.mktemp("clients")
    package = clients / "react"
    package.mkdir()
    for name in FILES:
        given = node_tools.REACT / name
        (shutil.copytree if given.is_dir() else shutil.copy)(given, package / name)
    (package / "node_modules").symlink_to(tools.parent)
    build = shutil.ignore_patterns("node_modules", "types")
    shutil.copytree(node_tools.CLIENT, clients / "js", ignore=build)
    names = clients / "node_modules" / "@tidings"
    names.mkdir(parents=True)
    (names / "client").symlink_to(clients / "js")
    (names / "react").symlink_to(package)
    return package


async def test_components_follow_the_views(tools: Path, package: Path) -> None:
    tests = sorted(str(path) for path in (package / "test").glob("*.test.js"))
    assert b"# fail 0" in await run_in(package, tools, "node", "--test", *tests)


async def test_their_form_is_the_formatters(tools: Path, package: Path) -> None:
    await run_in(package, tools, "prettier", "--check", "src", "test")


async def test_they_are_small(tools: Path, package: Path) -> None:
    command = json.loads((package / "package.json").read_text())["scripts"]["build"]
    built = await run_in(package, tools, "sh", "-c", command)
    assert len(gzip.compress(built, 9)) < SIZE_MAX


APPLICATION: Final = """
import { type Row, Tidings } from "@tidings/client";
import "@tidings/client/elements/chat.js";
import { useChat, useUnread } from "@tidings/react";

const client = new Tidings("https://chat.example.org", { token: () => "" });
export const done: Promise<{ sequence: number }> = client.chat("c").send("Hi").done;
export const row: Row | undefined = useChat("c").rows[0];
// @ts-expect-error: a number is no text, so the type is known
export const total: string = useUnread().total;
"""


async def test_types_of_client_and_hooks_fit_and_reach_an_application(
    tools: Path, package: Path
) -> None:
    application = package.with_name("application.ts")
    application.write_text(APPLICATION)
    # In the order of the README. This checks the types of all modules, and writes them.
    for folder in (package.with_name("js"), package):
        command = json.loads((folder / "package.json").read_text())["scripts"]["prepack"]
        await run_in(folder, tools, "sh", "-c", command)
    options = ("--noEmit", "--strict", "--skipDefaultLibCheck", "--module", "nodenext")
    await run_in(package.parent, tools, "tsc", *options, str(application))
