# SPDX-License-Identifier: Apache-2.0
"""Requests that the server makes: to addresses of the operator's, and to those of tenants that are
public, by few guarded clients."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import tidings
from tidings.config.values import PARSE

SOURCE: Final = Path(tidings.__file__).parent
CLIENTS: Final = frozenset(
    {"aiohttp", "httpx", "http.client", "urllib.request", "requests", "urllib3", "aiobotocore"}
)
"""What can make a request over HTTP."""
GUARDED: Final = frozenset(
    {
        "aws/objects.py",
        "aws/transport.py",
        "outgoing/push/guarded_posts.py",
        "outgoing/signed_posts.py",
        "phones/push_webhook.py",
        "phones/sms.py",
    }
)
"""The files of the server that make some."""
COMMANDS: Final = ("cli/", "doctor/", "tools/", "stores/dynamodb/schema/")
"""Programs that somebody runs at a terminal, against an address of their own choice."""
ASKING: Final = ("get", "post", "put", "patch", "delete", "head", "request", "ws_connect")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return names


def reaches_out(tree: ast.Module) -> bool:
    return any(
        name == client or name.startswith(f"{client}.")
        for name in imported(tree)
        for client in CLIENTS
    )


def calls(tree: ast.Module, *names: str) -> list[dict[str | None, ast.expr]]:
    """The named arguments of each call of a method with one of these names that has some."""
    return [
        {one.arg: one.value for one in node.keywords}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and node.keywords
    ]


@pytest.mark.attack("W05")
def test_only_the_guarded_clients_make_requests() -> None:
    found = {name for name, tree in modules() if reaches_out(tree)}
    assert {name for name in found if not name.startswith(COMMANDS)} == GUARDED


@pytest.mark.attack("W05", "W03")
@pytest.mark.parametrize("name", sorted(GUARDED))
def test_each_has_a_deadline_follows_nothing_and_keeps_no_cookies(name: str) -> None:
    tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))
    asked = calls(tree, *ASKING)
    assert asked, "it asks somebody"
    for arguments in asked:
        assert ast.literal_eval(arguments["allow_redirects"]) is False
    sessions = calls(tree, "ClientSession")
    assert sessions or name == "aws/objects.py", "only this one asks through another's session"
    has_deadline = all("timeout" in arguments for arguments in asked)
    for session in sessions:
        assert "timeout" in session or has_deadline
        assert "cookie_jar" in session
    assert sessions or has_deadline


@pytest.mark.attack("W04")
@pytest.mark.parametrize("setting", ["push_url", "sms_url", "sms_endpoint", "sqs_queue_url"])
@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd", "gopher://127.0.0.1:70/x", "ftp://host/x", "dict://host:1/x",
        "javascript:alert(1)", "//host/x", "host/x", "https:///x", "https://host:0/x",
        "https://host/ x", "https://host/\n",
    ],
)  # fmt: skip
def test_an_address_is_of_the_web(setting: str, address: str) -> None:
    with pytest.raises(ValueError, match="an address such as"):
        PARSE[setting](address)
