# SPDX-License-Identifier: Apache-2.0
"""The terminal of `tidings chat`: lines while output arrives, in a pipe and with all keys."""

import asyncio
import os
import sys
from collections.abc import Iterator

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tidings.cli.terminal import PipeTerminal, PromptTerminal, open_terminal
from tidings.model.setup_error import SetupError

LEFT, END, INTERRUPT = "\x1b[D", "\x05", "\x03"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


async def test_a_line_is_edited_with_the_usual_keys(keys: PipeInput) -> None:
    keys.send_text("行" + LEFT + "ä" + END + "!\rand more\r\x04")
    with PromptTerminal() as terminal:
        assert [line async for line in terminal.lines()] == ["ä行!", "and more"]
        assert terminal.typed.is_set()


async def test_an_interrupt_ends_the_input(keys: PipeInput) -> None:
    keys.send_text("never sent" + INTERRUPT)
    with PromptTerminal() as terminal:
        assert [line async for line in terminal.lines()] == []


async def test_the_prompt_shows_a_note_for_a_while_and_the_status_else(keys: PipeInput) -> None:
    with PromptTerminal() as terminal:
        assert terminal.prompt() == "> "
        terminal.say_status("read")
        assert terminal.prompt() == "[read] > "
        terminal.note("bob is typing", 0.0)
        assert terminal.prompt() == "[bob is typing] > "
        while terminal.prompt() != "[read] > ":
            await asyncio.sleep(0)
        terminal.note("bob is typing", 3_600.0)
        terminal.forget_note()
        assert terminal.prompt() == "[read] > "


async def test_in_a_pipe_lines_are_just_lines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    far, near = os.pipe()
    with os.fdopen(far) as file, open_pipe(file, monkeypatch) as terminal:
        os.write(near, "one\x07\nzwei: ä\n\xff".encode("latin-1"))
        os.close(near)
        assert [line async for line in terminal.lines()] == ["one", "zwei: \ufffd", "\ufffd"]
        terminal.note("bob is typing", 3_600.0)
        for status in ("sent", "delivered", "delivered", "read", ""):
            terminal.say_status(status)
        terminal.forget_note()
        terminal.show("over")
    assert capfd.readouterr().out == "  (delivered)\n  (read)\nover\n"


def open_pipe(file: object, monkeypatch: pytest.MonkeyPatch) -> PipeTerminal:
    monkeypatch.setattr("sys.stdin", file)
    terminal = open_terminal()
    assert isinstance(terminal, PipeTerminal)
    return terminal


async def test_without_its_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    with pytest.raises(SetupError, match=r"tidings\[chat\]"):
        open_terminal()
