# SPDX-License-Identifier: Apache-2.0
"""Every command of the runbooks is run: on a real server and its backups."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from scripts.observability.rules import RUNBOOKS
from scripts.write_generated import ROOT
from tests.support.server import ServerProcess
from tidings.cli import main
from tidings.cli.command_line import make_parser
from tidings.stores.sqlite.identity.erasing import LEDGER

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVICE_MANAGER = ("journalctl", "timedatectl")
"""Programs that tests cannot run for real; their options are compared with their help."""
SHELL = ("chmod", "cp", "curl", "df", "grep", "install", "mv")
_BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(tidings [a-z][^`…]*)`")
_SETTING = re.compile(r"[A-Z_]+=")


def commands_of(page: Path) -> list[str]:
    """The commands of a page in their order: those in blocks, then those in sentences."""
    text = page.read_text()
    blocks = [block for _, block in _BLOCK.findall(text)]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    inline = _INLINE.findall(_BLOCK.sub("", text))
    return [*lines, *(one for one in inline if one not in lines)]


PAGES = {
    path.name: found
    for path in sorted((ROOT / RUNBOOKS).glob("*.md"))
    if (found := commands_of(path))
}


class Operator:
    """Types commands into a shell on the machine of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ServerProcess(folder / "tidings-data")

    async def type(self, command: str) -> None:
        """Run a command; it must succeed, or at least be understood if it judges something."""
        words = shlex.split(command)
        settings = dict(word.split("=", 1) for word in words if _SETTING.match(word))
        program, *rest = words[len(settings) :]
        if program == "tidings":
            await self._tidings(rest, settings)
        elif program == "systemctl":
            await self._systemctl(rest)
        elif program in SERVICE_MANAGER:
            await asyncio.to_thread(understands, program, rest)
        else:
            assert program in SHELL, command
            here = command.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}")
            await asyncio.to_thread(
                subprocess.run, ["bash", "-ec", here], cwd=self.folder, check=True
            )

    async def _tidings(self, words: list[str], settings: dict[str, str]) -> None:
        if words[0] == "schema":
            make_parser().parse_args(words)  # `test_schema_command` runs them on tables
            return
        if words[0] in ("doctor", "config"):
            words = [*words, "--port", str(self.server.port)]
        named = {"TARGET": "backups", "https://chat.example.com": self.server.url}
        words = [named.get(word, word) for word in words]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            for name in [name for name in os.environ if name.startswith("TIDINGS_")]:
                patch.delenv(name)
            for name, value in settings.items():
                patch.setenv(name, value)
            code = await asyncio.to_thread(main, words)
        # The doctor judges this machine, where a disk may be in memory and a clock may run free.
        assert code == 0 or words[0] == "doctor", words

    async def _systemctl(self, words: list[str]) -> None:
        match words:
            case ["status", "tidings"]:
                pass
            case ["start", "tidings"]:
                if self.server.exit_code is not None:
                    await self.server.start()
            case ["stop", "tidings"]:
                assert await self.server.terminate() == 0
            case ["restart", "tidings"]:
                assert await self.server.terminate() == 0
                await self.server.start()
            case ["kill", "--kill-whom=main", "--signal", "USR1", "tidings"]:
                os.kill(self.server.pid, signal.SIGUSR1)
            case _:
                raise AssertionError(words)


def understands(program: str, words: list[str]) -> None:
    """Compare options with the help of the program, if it is installed."""
    if shutil.which(program) is None:
        return
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    for word in words:
        assert not word.startswith("--") or re.search(rf"{word}\b", told), word


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Operator]:
    """An operator of a running server, with a backup of it."""
    folder = tmp_path_factory.mktemp("operator")
    made = Operator(folder)
    async with made.server:
        (folder / "tidings-data" / LEDGER).touch(mode=0o600)
        await made.type("tidings tenant create acme")
        await made.type("tidings backup backups")
        yield made


@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_a_page_work(operator: Operator, page: str) -> None:
    for command in PAGES[page]:
        if page == "move-master-key.md" and command == "systemctl restart tidings":
            key = str(operator.folder / "new-place.key")
            operator.server.environment["TIDINGS_MASTER_KEY_FILE"] = key
        await operator.type(command)
    await operator.type("systemctl start tidings")
    await operator.type("curl --silent --fail http://127.0.0.1:8080/readyz")
    # The next page begins with the settings that the documentation assumes.
    moved = operator.folder / "master.key.copy"
    if moved.exists():
        moved.rename(operator.folder / "tidings-data" / "master.key")
    for name in ("damaged-data", "moved-data"):
        shutil.rmtree(operator.folder / name, ignore_errors=True)
