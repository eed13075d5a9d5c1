# SPDX-License-Identifier: Apache-2.0
"""`tidings listen`: when it ends, and what it survives."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.stub_server import Asked, stub_server
from tidings.cli import listen, main

EVENT = {"delivery_id": "c.2", "type": "message.created", "timestamp": "T1", "data": {}}
PULLS_MAX = 5
"""Whatever pulls more often never ends by itself."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings but a tenant key, no pauses, and the signals of the test run as they were."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TIDINGS_TENANT_KEY", "sk_key")
    monkeypatch.setattr(listen, "PAUSE_SECONDS", 0)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Server:
    """A server with one event, and the target of `--forward` under `/hook`."""

    def __init__(self, *pulls: int, hook: int = 204) -> None:
        self.pulls = [*pulls, *[200] * PULLS_MAX]
        self.asked: list[str] = []
        self.hook = hook

    def __call__(self, asked: Asked) -> tuple[int, object]:
        self.asked.append(f"{asked.method} {asked.path.rpartition('/')[2]}")
        if asked.path == "/hook":
            return self.hook, None
        if not asked.path.endswith("/pull"):
            return 200, {"secret": "whsec_c2VjcmV0"}
        if self.asked.count("POST pull") > PULLS_MAX:
            return 404, {"detail": "it does not end"}
        return self.pulls.pop(0), {"data": [EVENT], "detail": "away"}


def test_it_ends_in_time_while_the_target_refuses() -> None:
    server = Server(hook=500)
    with stub_server(server) as stub:
        words = ("--tenant", "acme", "--server", stub.url, "--forward", f"{stub.url}/hook")
        assert main(["listen", *words, "--seconds", "0"]) == 0
    assert "POST hook" in server.asked


def test_a_server_that_restarts_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(503, 502)
    with stub_server(server) as stub:
        words = ("--tenant", "acme", "--server", stub.url)
        # Only what no repeat can mend ends it.
        assert main(["listen", *words]) == 2
    said = capsys.readouterr()
    assert said.err.count("trying again") == 1
    assert "message.created" in said.out
