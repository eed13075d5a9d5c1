# SPDX-License-Identifier: Apache-2.0
"""`tidings api` sends any request to the REST API with the root key; `tidings chats log` prints the
log of a chat, with content only if a reason is given; `tidings chats post` posts to a chat."""

import argparse
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec

from tidings.cli.server_access import (
    add_server_option,
    known_root_key,
    print_row,
    request,
    server_url,
)
from tidings.config import Config
from tidings.model import limits
from tidings.model.setup_error import SetupError

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def add_api_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings api`."""
    add_server_option(parser)
    parser.add_argument("method", metavar="METHOD", choices=METHODS, help="|".join(METHODS))
    parser.add_argument("path", metavar="PATH", help="the path, such as /v1/tenants")
    parser.add_argument("body", metavar="JSON", nargs="?", help="the body of the request")


def api(config: Config, options: argparse.Namespace) -> int:
    """Send the request and print the answer; return the exit code.

    Raises:
        SetupError: The body is not JSON, or the server does not answer or declines.
    """
    url = server_url(config, options.server, "--server")
    if not options.path.startswith("/"):
        raise SetupError("the path must begin with a slash, such as /v1/tenants")
    body = None if options.body is None else _parsed(options.body)
    where = f"{url.rstrip('/')}{options.path}"
    answer = request(options.method, where, known_root_key(config), body)
    if answer:
        print(_readable(answer))
    return 0


def _readable(answer: bytes) -> str:
    """Return JSON with line breaks, and anything else as it is: /metrics answers with text."""
    try:
        return msgspec.json.format(answer).decode()
    except msgspec.DecodeError:
        return answer.decode(errors="replace").rstrip("\n")


def _parsed(body: str) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise SetupError(f"the body is not JSON: {error}") from None


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings chats log`."""
    parser.set_defaults(act=print_log)
    add_server_option(parser)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument(
        "chat", metavar="CHAT", help="the id of the chat, from `tidings chats list`"
    )
    parser.add_argument("--after", type=int, default=0, help="the sequence to begin after (0)")
    parser.add_argument(
        "--limit", type=int, default=limits.PAGE_DEFAULT, help="the number of entries (50)"
    )
    parser.add_argument(
        "--reason", help="print the content too; the audit trail records this reason"
    )


def print_log(where: str, root_key: str, options: argparse.Namespace) -> None:
    """Print part of the log of a chat."""
    place = f"{where}/{quote(options.tenant, safe='')}/chats/{quote(options.chat, safe='')}"
    part = {"after": options.after, "limit": options.limit}
    if options.reason is None:
        answer = request("GET", f"{place}/entries?{urlencode(part)}", root_key)
    else:
        answer = request("POST", f"{place}/unseal", root_key, {"reason": options.reason, **part})
    for entry in msgspec.json.decode(answer)["data"]:
        print_row(*_columns(entry))


def add_post_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings chats post`."""
    parser.set_defaults(act=post_message)
    add_server_option(parser)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("chat", metavar="CHAT", help="the id of the chat")
    parser.add_argument("text", metavar="TEXT", help="the content of the message")
    parser.add_argument("--sender", help="the member in whose name to post (the tenant itself)")
    parser.add_argument(
        "--id", help="a client_message_id; a repeat with the same one posts nothing"
    )


def post_message(where: str, root_key: str, options: argparse.Namespace) -> None:
    """Post a message as the tenant, and print its id."""
    place = f"{where}/{quote(options.tenant, safe='')}/chats/{quote(options.chat, safe='')}"
    body = {"client_message_id": options.id or uuid4().hex, "content": options.text}
    if options.sender is not None:
        body["sender"] = options.sender
    answer = request("POST", f"{place}/messages", root_key, body)
    print(msgspec.json.decode(answer)["message_id"])


def _columns(entry: dict[str, Any]) -> list[str]:
    gone = next((name for name in ("redacted", "expired", "erased") if entry.get(name)), None)
    target = f"of {entry['target']}" if "target" in entry else None
    users = ", ".join(entry.get("users", ()))
    told = (target, users, entry.get("name"), gone or entry.get("content"))
    about = (str(entry["sequence"]), entry["created_at"], entry["kind"], entry["sender"])
    return [*about, *filter(None, told)]
