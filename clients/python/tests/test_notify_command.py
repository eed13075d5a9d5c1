# SPDX-License-Identifier: Apache-2.0
"""`tidings notify`: to users of a file and to everyone, on a terminal and in a pipe."""

import asyncio
import os
import pty
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from clients.python.tests.test_client import a_client
from tests.support.inbox import Inbox
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tests.unit.stub_server import Asked, stub_server
from tidings.cli import main
from tidings.cli import notify as module

TEXT: Final = ("--title", "Hello", "--body", "New in March")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those a test gives, and a folder for files."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def inbox(town: Town) -> Inbox:
    await town.tenant_key()
    return await Inbox(town).make(categories=["offers"])


async def notify(inbox: Inbox, *words: str) -> int:
    """Run the command beside the loop: it makes one of its own."""
    return await type_words("--tenant", inbox.town.tenant, "--inbox", inbox.name, *TEXT, *words)


async def type_words(*words: str) -> int:
    return await asyncio.to_thread(main, ["notify", *words])


async def test_users_of_a_file(
    server: ServerProcess, inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("users.csv").write_text("user_id,name\nalice,Alice\nbob,Bob\nalice,again\n")
    words = ["--category", "offers", "--cta-uri", "https://acme.example/", "--sender", "Acme"]
    words += ["--collapse-key", "march", "--expires-at", "2126-11-17T00:00:00+01:00"]
    data = ["--data", str(server.data)]
    assert await notify(inbox, "--users", "users.csv", *words, *data) == 0
    said, complained = capsys.readouterr()
    first, last = said.splitlines()
    assert (first.split("  ")[1], last) == ("2 users", "2 of 2 users have it.")
    assert complained == ""
    async with a_client(inbox.town) as alice:
        (told,) = (await alice.inbox("news").page()).data
    assert (told.id, told.title, told.body) == (first.split()[0], "Hello", "New in March")
    assert (told.category, told.sender) == ("offers", "Acme")
    assert told.cta_uri == "https://acme.example/"
    assert told.collapse_key == "march"


async def test_everyone_with_the_key_of_the_tenant(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alice = await inbox.town.user("alice")
    monkeypatch.setenv("TIDINGS_TENANT_KEY", await inbox.town.tenant_key())
    assert await notify(inbox, "--everyone", "--url", inbox.town.url) == 0
    (said,) = capsys.readouterr().out.splitlines()
    (told,) = await inbox.listed(alice)
    assert said.startswith(f"{told['id']}  everyone, about ")
    monkeypatch.setenv("TIDINGS_TENANT_KEY", "sk_wrong")
    assert await notify(inbox, "--everyone", "--url", inbox.town.url) == 2


async def test_more_users_than_a_request_takes(
    server: ServerProcess,
    inbox: Inbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "AUDIENCE_USERS_MAX", 2)
    Path("users.csv").write_text("a\nb\nc\na\nd\ne\n")
    words = ["--users", "users.csv", "--data", str(server.data), "--key", "march"]
    assert await notify(inbox, *words) == 0
    first = capsys.readouterr().out
    *posted, last = first.splitlines()
    assert [line.split("  ")[1] for line in posted] == ["2 users", "2 users", "1 user"]
    assert last == "5 of 5 users have it."
    assert await notify(inbox, *words) == 0
    assert capsys.readouterr().out == first, "the same requests have the same answers"
    for name in "abcde":
        person = await inbox.town.user(name)
        assert len(await inbox.listed(person)) == 1, "nobody is notified twice"
    Path("users.csv").write_text("b\na\n")
    assert await notify(inbox, *words) == 2, "another request under the same key"


async def test_what_is_wrong_is_told(
    server: ServerProcess, inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("users.csv").write_text("alice\na b\n")
    data = ["--data", str(server.data)]
    for words, reason in (
        (["--users", "users.csv", *data], "users.csv, line 2: 'a b' is not a user id"),
        (["--users", "nowhere.csv", *data], "nowhere.csv: No such file"),
        (["--everyone"], "no server has the folder"),
        (["--everyone", "--url", server.url], "there is no root key"),
        (["--everyone", "--category", "hats", *data], "declined: "),
        (["--everyone", "--cta-uri", "javascript:x", *data], "declined: "),
        (["--everyone", "--inbox", "nothing", *data], "declined: "),
    ):
        assert await notify(inbox, *words) == 2
        assert reason in capsys.readouterr().err
    for words in (["--everyone", "--users", "users.csv"], [], ["--everyone", "--key", "ü"]):
        with pytest.raises(SystemExit) as ended:
            await notify(inbox, *words)
        assert ended.value.code == 2


async def test_a_server_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_TENANT_KEY", "sk_key")
    words = ["--tenant", "acme", "--inbox", "news", *TEXT, "--everyone"]
    assert await type_words(*words, "--key", "march", "--url", "http://127.0.0.1:1") == 1
    assert "Repeat the command with --key march" in capsys.readouterr().err


def slow(asked: Asked) -> tuple[int, object]:
    """A server whose deliveries never end."""
    if asked.method == "POST":
        return 202, {"id": "N1", "recipients": 300, "estimated": False, "status": "queued"}
    return 200, {"id": "N1", "status": "running", "recipients": 300, "delivered": 100}


async def test_taken_back_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_TENANT_KEY", "sk_key")
    monkeypatch.setattr(module, "LOOK_SECONDS", 0)
    Path("users.csv").write_text("alice\n")
    looks = iter(["running", "redacted"])

    def answer(asked: Asked) -> tuple[int, object]:
        status, content = slow(asked)
        assert isinstance(content, dict)
        return status, content if asked.method == "POST" else content | {"status": next(looks)}

    with stub_server(answer) as stub:
        words = ["--tenant", "acme", "--inbox", "news", *TEXT, "--users", "users.csv"]
        assert await type_words(*words, "--url", stub.url) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == ["N1  300 users", "100 of 300 users have it.", "It was retracted meanwhile."]
    assert {asked.bearer for asked in stub.asked} == {"sk_key"}


async def test_a_bar_on_a_terminal_until_it_is_interrupted() -> None:
    Path("users.csv").write_text("alice\n")
    keys, far_end = pty.openpty()
    with stub_server(slow) as stub:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings", "notify", "--tenant", "acme", "--inbox", "news"),
            *(*TEXT, "--users", "users.csv", "--url", stub.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=far_end,
            env={**os.environ, "TIDINGS_TENANT_KEY": "sk_key"},
            preexec_fn=heed_interrupts,
        )
        os.close(far_end)
        printed = await printed_up_to(keys, "[##########....................] 100 of 300")
        assert "posting [" in printed
        process.send_signal(signal.SIGINT)
        printed = await printed_up_to(keys, "nobody is notified twice")
        assert "interrupted; what was posted will still be delivered" in printed
        said, _ = await process.communicate()
        assert (process.returncode, said) == (1, b"N1  300 users\n")
    os.close(keys)


def heed_interrupts() -> None:
    """A shell that runs the tests in the background has them ignored, by all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def printed_up_to(screen: int, text: str) -> str:
    """Read until this has been printed; all that was."""
    printed = b""

    async def is_there() -> bool:
        nonlocal printed
        printed += await asyncio.to_thread(os.read, screen, 4_096)
        return text.encode() in printed

    await until(is_there, describe=lambda: printed)
    return printed.decode()
