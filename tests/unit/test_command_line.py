# SPDX-License-Identifier: Apache-2.0
"""The command: what it prints, what it refuses, and how a rotation finds its server."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.settings import config_of
from tests.unit.small_deployment import ROOT_KEY, open_small_deployment, read, write
from tests.unit.stub_server import Asked, stub_server
from tidings import __version__
from tidings.assembly.system import SystemChance
from tidings.cli import main
from tidings.cli.command_line import make_parser
from tidings.cli.server_access import running_server
from tidings.config import Config
from tidings.keyrings import FileKeyring, ensure_root_key
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import master_key


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those a test gives."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def key_ids(folder: Path) -> list[str]:
    keyring = FileKeyring(folder, SystemChance())
    return [key.key_id for key in (keyring.current, *keyring.previous) if key]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"tidings {__version__}\n"


def test_config_show_lists_settings_with_their_sources(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_ROOT_KEY", ROOT_KEY)
    assert main(["config", "show", "--port", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"port  0  --port", "metrics  (none)  default"} <= set(lines)
    assert "root_key  (secret)  TIDINGS_ROOT_KEY" in lines
    assert ROOT_KEY not in "".join(lines)


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "tidings", "version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"tidings {__version__}\n")


def test_config_check_tells_every_mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "Configuration OK.\n"
    monkeypatch.setenv("TIDINGS_PROT", "1")
    (tmp_path / "tidings.toml").write_text('log_level = "loud"')
    assert main(["config", "check", "--port", "x"]) == 2
    told = capsys.readouterr().err
    for part in ("TIDINGS_PROT", "tidings.toml: log_level", "--port"):
        assert part in told
    assert not (tmp_path / "tidings-data").exists(), "checking makes nothing"


def test_serving_refuses_bad_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "there is no root key" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["keys"], ["config"], ["dance"], ["chat", "--roles", "x"]])
def test_words_it_does_not_know(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: tidings" in capsys.readouterr().err


async def test_keys_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    assert main(["keys", "status", "--data", str(folder)]) == 0
    assert "no master key yet" in capsys.readouterr().out
    keyring = FileKeyring(folder, SystemChance())
    await keyring.ensure()
    await keyring.begin_rotation()
    assert main(["keys", "status", "--data", str(folder)]) == 0
    told = capsys.readouterr().out
    for key_id in key_ids(folder):
        assert key_id in told
    assert "still needed" in told
    assert "none has this folder open" in told


def test_a_key_file_for_all_to_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "master.key").write_text("x")
    (tmp_path / "master.key").chmod(0o644)
    assert main(["keys", "status", "--data", str(tmp_path)]) == 2
    assert "chmod 600" in capsys.readouterr().err


# --- Serving, without a server


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config | BaseException | int]:
    """What serving ends with, once a test has put it there; afterwards what was served."""
    ends: list[Config | BaseException | int] = []

    async def serve(config: Config, announce: Callable[[str], None], *, has_demo: bool) -> int:
        announce(f"http://127.0.0.1:{int(has_demo)}")
        [end] = ends
        ends[:] = [config]
        if isinstance(end, BaseException):
            raise end
        assert isinstance(end, int)
        return end

    monkeypatch.setattr("tidings.assembly.server.serve", serve)
    monkeypatch.setattr("tidings.cli.serve.start_logging", lambda level: None)
    return ends


def test_serving_announces_itself_and_exits_with_its_code(
    served: list[Config | BaseException | int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served.append(3)
    assert main(["serve", "--port", "0", "--data", "d"]) == 3
    [config] = served
    assert isinstance(config, Config)
    assert replace(config, settings=()) == config_of(port=0, data=Path("d"))
    told = capsys.readouterr().out
    assert "Tidings is serving at http://127.0.0.1:0\n" in told
    assert "two windows" not in told
    assert f"cat {tmp_path / 'd' / 'root.key'}" in told
    assert str(tmp_path / "d" / "master.key") in told


def test_the_demo_says_where_to_look(
    served: list[Config | BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    served.append(0)
    assert main(["serve", "--demo", "--data", "d"]) == 0
    told = capsys.readouterr().out
    assert told.rstrip().splitlines()[-1].startswith("Open http://127.0.0.1:1 in two windows")


@pytest.mark.attack("A20")
@pytest.mark.parametrize(
    "settings",
    [
        {"TIDINGS_HOST": "0.0.0.0"},
        {"TIDINGS_TRUSTED_PROXIES": "127.0.0.1"},
        {"TIDINGS_ALLOWED_ORIGINS": "https://app.example.com"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_there_is_no_demo_where_others_can_come(
    served: list[Config | BaseException | int],
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {
        **settings,
        "TIDINGS_ROOT_KEY": "a-root-key-of-32-letters:bcdfghj",
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", "--demo", "--data", "d"]) == 2
    assert "leave --demo out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (SetupError("in use"), "tidings: in use"),
        (SetupError("the wrong key"), "tidings: the wrong key"),
        (OSError(errno.EADDRINUSE, "Address in use"), "cannot listen on 127.0.0.1:8080: Address"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "tidings: /x: Permission"),
    ],
)
def test_trouble_that_only_an_operator_can_end(
    served: list[Config | BaseException | int],
    capsys: pytest.CaptureFixture[str],
    trouble: Exception,
    told: str,
) -> None:
    served.append(trouble)
    assert main(["serve"]) == 2
    assert told in capsys.readouterr().err


def test_a_store_that_does_not_answer_is_worth_another_try(
    served: list[Config | BaseException | int], capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = StoreUnavailable()
    trouble.__cause__ = OSError("nobody listens there")
    served.append(trouble)
    assert main(["serve"]) == 1
    assert "The store cannot be reached or cannot write: nobody listens" in capsys.readouterr().err


def test_other_trouble_is_not_hidden(served: list[Config | BaseException | int]) -> None:
    served.append(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        main(["serve"])


# --- Rotating


@contextmanager
def a_server_has(folder: Path, url: str) -> Iterator[None]:
    """The folder as it is while a server runs on it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "server.json").write_text(json.dumps({"url": url}))
        yield


def test_what_a_killed_server_said_is_not_believed(tmp_path: Path) -> None:
    with a_server_has(tmp_path, "http://127.0.0.1:1"):
        assert running_server(tmp_path) == "http://127.0.0.1:1"
    assert running_server(tmp_path) is None


def test_a_running_server_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    root_key = ensure_root_key(tmp_path, SystemChance())
    with stub_server(lambda _: (200, {"master_key_id": "abc", "rewrapped": 7})) as server:
        with a_server_has(tmp_path, server.url):
            assert main(["keys", "rotate", "--data", str(tmp_path)]) == 0
            monkeypatch.setenv("TIDINGS_ROOT_KEY", ROOT_KEY)
            assert main(["keys", "rotate", "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "abc" in told
    assert "7 keys" in told
    assert server.asked == [
        Asked("POST", "/v1/keys/rotate", root_key, None),
        Asked("POST", "/v1/keys/rotate", ROOT_KEY, None),
    ]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((409, {"detail": "set TIDINGS_MASTER_KEY_PREVIOUS"}), "set TIDINGS_MASTER_KEY_PREVIOUS"),
        ((401, {"detail": "Valid credentials are required"}), "Valid credentials"),
        ((502, "a proxy"), "HTTP 502"),
    ],
)
def test_what_the_server_declines_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, object],
    told: str,
) -> None:
    ensure_root_key(tmp_path, SystemChance())
    with stub_server(lambda _: answer) as server:
        with a_server_has(tmp_path, server.url):
            assert main(["keys", "rotate", "--data", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err


def test_without_a_root_key_nobody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_server_has(tmp_path, "http://127.0.0.1:1"):
        assert main(["keys", "rotate", "--data", str(tmp_path)]) == 2
    assert "TIDINGS_ROOT_KEY" in capsys.readouterr().err


def test_a_server_that_breaks_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_root_key(tmp_path, SystemChance())
    with stub_server(lambda _: (200, "not what was asked for")) as server:
        with a_server_has(tmp_path, server.url):
            assert main(["keys", "rotate", "--data", str(tmp_path)]) == 2
    assert "broke off" in capsys.readouterr().err


def test_a_server_whose_address_leads_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_root_key(tmp_path, SystemChance())
    with a_server_has(tmp_path, "http://no.such.host.invalid"):
        assert main(["keys", "rotate", "--data", str(tmp_path)]) == 2
    assert "does not answer" in capsys.readouterr().err


async def test_keys_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_MASTER_KEY", b64encode(b"n" * 32).decode())
    monkeypatch.setenv("TIDINGS_MASTER_KEY_PREVIOUS", b64encode(b"o" * 32).decode())
    assert main(["keys", "status", "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    for secret in (b"n" * 32, b"o" * 32):
        assert master_key(secret).key_id in told
    ensure_root_key(tmp_path, SystemChance())
    with stub_server(lambda _: (200, {"master_key_id": "abc", "rewrapped": 7})) as server:
        with a_server_has(tmp_path, server.url):
            assert main(["keys", "rotate", "--data", str(tmp_path)]) == 0
    assert "remove it" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": 1}', '{"url": "file:///etc"}', "{"])
def test_server_files_that_say_nothing(tmp_path: Path, text: str) -> None:
    with a_server_has(tmp_path, "http://127.0.0.1:1"):
        (tmp_path / "server.json").write_text(text)
        assert running_server(tmp_path) is None


@pytest.mark.attack("H09")
async def test_without_a_server_the_store_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder) as world:
        entry = await write(world.vault, "text")
    ensure_root_key(folder, SystemChance())
    before = key_ids(folder)
    # Left behind by a server that was killed: nobody listens there any more.
    (folder / "server.json").write_text('{"url": "http://127.0.0.1:1"}')
    command = [sys.executable, "-m", "tidings", "keys", "rotate", "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    after = key_ids(folder)
    assert after[0] in done.stdout
    assert len(after) == 1
    assert after != before
    async with open_small_deployment(folder) as world:
        assert await read(world.vault, entry) == "text"
        (act,) = await world.store.audit.page(None, since=0, before=(2**53, ""), limit=10)
    assert (act.actor, act.action, act.outcome) == ("cli", "rotate_keys", "done")


async def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_small_deployment(folder):
        command = [sys.executable, "-m", "tidings", "keys", "rotate", "--data", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "in use by another Tidings process" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_understands_its_options_without_the_other_commands() -> None:
    words = ["serve", "--host", "::1", "--port", "0", "--roles", "api", "--data", "x", "--demo"]
    alone = vars(make_parser(is_server=True).parse_args(words))
    among_others = vars(make_parser().parse_args(words))
    assert alone.pop("run") and among_others.pop("run")
    assert alone == among_others
