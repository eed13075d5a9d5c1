# SPDX-License-Identifier: Apache-2.0
"""The start-up text: its commands work when pasted, and it says what the key file is worth."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.settings import config_of
from tests.unit.stub_server import Asked, stub_server
from tidings.cli.serve import welcome

CHAT = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


def answer(asked: Asked) -> tuple[int, object]:
    """As the server would, with credentials that tell who asks."""
    match asked.method, asked.path, asked.bearer:
        case "PUT", "/v1/tenants/acme", "the-root-key":
            return 201, {"tenant": "acme", "name": asked.body["name"]}
        case "POST", "/v1/tenants/acme/keys", "the-root-key":
            return 201, {"key_id": "1", "key": "the-tenant-key"}
        case "POST", "/v1/tenants/acme/tokens", "the-tenant-key":
            return 201, {"token": f"token-of-{asked.body['user_id']}"}
        case "POST", "/v1/chats", "token-of-alice":
            assert asked.body == {"type": "direct", "members": ["bob"]}
            return 201, {"chat_id": CHAT}
        case "POST", path, "token-of-alice" if path == f"/v1/chats/{CHAT}/messages":
            return 201, {"sequence": 2, "content": asked.body["content"]}
        case "GET", path, "token-of-bob" if path == f"/v1/chats/{CHAT}/messages":
            return 200, {"data": [{"content": "Hello Bob!"}], "next_before": None}
    return 404, {"code": "not_found"}


def commands_in(text: str) -> str:
    """What somebody would paste: from the first assignment to the last call."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("BASE="))
    last = max(n for n, line in enumerate(lines) if line.startswith("call "))
    return "\n".join(lines[first : last + 1])


@pytest.mark.parametrize("from_file", [True, False], ids=["key file", "environment"])
def test_the_first_steps_can_be_pasted(tmp_path: Path, from_file: bool) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    (folder / "root.key").write_text("the-root-key\n")
    source = folder / "root.key" if from_file else None
    with stub_server(answer) as server:
        text = welcome(config_of(data=folder), server.url, source, None)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands_in(text)],
            env={
                "PATH": os.environ["PATH"],
                "no_proxy": "*",
                **({} if from_file else {"TIDINGS_ROOT_KEY": "the-root-key"}),
            },
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert [(asked.method, asked.path.replace(CHAT, "…")) for asked in server.asked] == [
        ("PUT", "/v1/tenants/acme"),
        ("POST", "/v1/tenants/acme/keys"),
        ("POST", "/v1/tenants/acme/tokens"),
        ("POST", "/v1/tenants/acme/tokens"),
        ("POST", "/v1/chats"),
        ("POST", "/v1/chats/…/messages"),
        ("GET", "/v1/chats/…/messages"),
    ]
    assert "not_found" not in done.stdout
    assert "Hello Bob!" in done.stdout.splitlines()[-1]


def test_it_says_where_things_are(tmp_path: Path) -> None:
    config = config_of(data=tmp_path, root_key="secret-root-key", master_key=b"k" * 32)
    text = welcome(config, "http://127.0.0.1:8080", None, None)
    for part in ("http://127.0.0.1:8080/docs", str(tmp_path), "TIDINGS_ROOT_KEY"):
        assert part in text
    assert "secret-root-key" not in text
    text = welcome(config_of(data=tmp_path), "http://[::1]:1", tmp_path / "root.key", None)
    assert str(tmp_path / "root.key") in text


def test_it_says_what_the_key_file_is_worth(tmp_path: Path) -> None:
    text = welcome(config_of(data=tmp_path), "http://x", None, tmp_path / "master.key")
    about = text[text.index("The master key") :]
    assert str(tmp_path / "master.key") in about
    protects, not_against = about.split("It does not")
    for part in ("the database file alone", "a backup made without the key file", "disk blocks"):
        assert part in " ".join(protects.split())
    for part in ("read the whole folder", "the running server"):
        assert part in " ".join(not_against.split())
    elsewhere = welcome(config_of(data=tmp_path), "http://x", None, None)
    assert "comes from TIDINGS_MASTER_KEY" in elsewhere
    assert "beside the data" not in elsewhere


def test_it_says_where_tables_are_and_what_the_key_is_worth_there(tmp_path: Path) -> None:
    config = config_of(data=tmp_path, store="dynamodb", dynamodb_region="eu-west-1")
    text = welcome(config, "http://x", tmp_path / "root.key", tmp_path / "master.key")
    assert "tables tidings-* at DynamoDB in eu-west-1" in text
    about = " ".join(text[text.index("The master key") :].split())
    assert f"is in {tmp_path / 'master.key'}" in about
    assert "It protects the tables and every backup of them" in about
    assert "It protects the tables and every backup of them" in " ".join(
        welcome(config, "http://x", None, None).split()
    )
    own = config_of(data=tmp_path, store="dynamodb", dynamodb_endpoint="http://localhost:8000")
    assert "tables tidings-* at http://localhost:8000" in welcome(own, "http://x", None, None)


def test_a_process_without_the_api_offers_none_to_try(tmp_path: Path) -> None:
    text = welcome(config_of(data=tmp_path, roles=("worker", "relay")), "http://x", None, None)
    assert "  roles    worker, relay\n" in text
    for part in ("/docs", "BASE=", "root key"):
        assert part not in text
    assert "  roles " not in welcome(config_of(data=tmp_path), "http://x", None, None)


@pytest.mark.parametrize(
    ("host", "is_told"), [("127.0.0.1", False), ("0.0.0.0", True), ("192.0.2.7", True)]
)
def test_a_public_address_is_told_that_tls_ends_in_front_of_it(host: str, is_told: bool) -> None:
    text = welcome(config_of(host=host), f"http://{host}:8080", None, None)
    assert (f"Others can reach {host}" in text) == is_told
    assert ("speaks TLS" in text) == is_told
