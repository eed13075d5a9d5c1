# SPDX-License-Identifier: Apache-2.0
"""The JavaScript client: its own tests, its size, and a talk with a real server.

The tests of the React hooks check its types.
"""

import gzip
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from tests.support.node import run_in
from tests.support.people import Town
from tests.support.services import do_without
from tidings.api.modules import bundle, strip
from tidings.api.web_app import FOLDERS

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE_MAX: Final = 14 * 1_024
"""What a page loads of the client, compressed. Others in this field need 20 to 280 KiB."""
run = partial(run_in, node_tools.CLIENT)
SOURCES: Final = sorted((node_tools.CLIENT / "src").glob("*.js"))
PEOPLE: Final = ("alice", "bob", "carol", "dave")


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> Path:
    """The folder with the programs."""
    try:
        return node_tools.obtain()
    except Unavailable as error:
        do_without(request.config, node_tools.NAME, str(error))


async def test_its_rules_hold_without_any_io(tools: Path) -> None:
    tests = sorted(str(path) for path in (node_tools.CLIENT / "test").glob("*.test.js"))

    said = await run(tools, "node", "--test", *tests)

    assert b"# fail 0" in said


async def test_its_form_is_the_formatters(tools: Path) -> None:
    await run(tools, "prettier", "--check", "src", "elements", "app", "console", "test")


async def test_it_is_small(tools: Path) -> None:
    command = json.loads((node_tools.CLIENT / "package.json").read_text())["scripts"]["build"]

    built = await run(tools, "sh", "-c", command)

    assert len(gzip.compress(built, 9)) <= SIZE_MAX


async def minified(tools: Path, sources: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The modules, as a tool that knows JavaScript writes them."""
    for name, source in sources.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    files = [str(folder / "in" / name) for name in sources]
    await run(tools, "esbuild", "--minify", f"--outdir={folder}", f"--outbase={folder}/in", *files)
    return {name: (folder / name).read_text() for name in sources}


async def test_what_the_server_strips_means_nothing(tools: Path, tmp_path: Path) -> None:
    sources = {
        f"{folder}/{path.name}": path.read_text()
        for folder in FOLDERS
        for path in (node_tools.CLIENT / folder).glob("*.js")
    }
    stripped = {name: strip(source) for name, source in sources.items()}

    plain = await minified(tools, sources, tmp_path / "plain")

    assert plain == await minified(tools, stripped, tmp_path / "stripped")


async def test_a_served_module_exports_what_its_source_exports(tools: Path, tmp_path: Path) -> None:
    sources = {f"src/{path.name}": path.read_text() for path in SOURCES}
    (tmp_path / "served.mjs").write_text(bundle(sources, "src/index.js"))
    names = "console.log(Object.keys(await import(process.argv[1])).join())"
    exported = [
        await run(tools, "node", "--input-type=module", "--eval", names, str(module))
        for module in (tmp_path / "served.mjs", node_tools.CLIENT / "src" / "index.js")
    ]
    assert b"Tidings" in exported[0]
    assert exported[0] == exported[1]


async def test_people_talk_over_a_real_server(tools: Path, town: Town) -> None:
    tokens = {name: await town.token(name) for name in PEOPLE}
    talk = {"TIDINGS_URL": town.url, "TIDINGS_TOKENS": json.dumps(tokens)}
    flags = ["--experimental-websocket", "--test", "test/live/talking.test.js"]

    said = await run(tools, "node", *flags, environment=talk)

    assert b"# fail 0" in said
