# SPDX-License-Identifier: Apache-2.0
"""`tidings tenants`, `users`, `chats`, `inboxes` and `scheduled`: list what exists on a server.

Each list is printed in columns for people, or as JSON for programs.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from tidings.cli.api_request import add_log_options, add_post_options
from tidings.cli.server_access import (
    Row,
    add_server_option,
    of_tenant,
    print_row,
    request,
    rows,
)

TOKEN_SECONDS: Final = 60
"""Lifetime of a token with which a command reads data of a user."""

Columns = tuple[str | None, ...]


class _List(NamedTuple):
    does: str
    find: Callable[[str, str, argparse.Namespace], Iterator[Row]]
    columns: Callable[[Row], Columns]


def add_list_options(parser: argparse.ArgumentParser, folder: argparse.ArgumentParser) -> None:
    """Add the options of `tidings tenants`, `users`, `chats`, `inboxes` and `scheduled`."""
    name = parser.prog.split()[-1]
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser("list", parents=[folder], help=_LISTS[name].does)
    action.set_defaults(act=_print_list, listed=name)
    action.add_argument("--json", action="store_true", help="print JSON, one object per line")
    add_server_option(action)
    if name != "tenants":
        action.add_argument("tenant", metavar="TENANT", help="the tenant")
    if name == "scheduled":
        action.add_argument("user", metavar="USER", help="the user who scheduled them")
    if name == "users":
        action.add_argument("--prefix", help="only users whose ids begin with this")
    if name == "chats":
        action.add_argument("--user", metavar="USER", help="only the chats of this user")
        log = actions.add_parser("log", parents=[folder], help="print the log of a chat")
        add_log_options(log)
        post = actions.add_parser("post", parents=[folder], help="post a message to a chat")
        add_post_options(post)


def _print_list(where: str, root_key: str, options: argparse.Namespace) -> None:
    listed = _LISTS[options.listed]
    for row in listed.find(where, root_key, options):
        if options.json:
            print(msgspec.json.encode(row).decode())
        else:
            print_row(*listed.columns(row))


def _tenants(where: str, root_key: str, _options: argparse.Namespace) -> Iterator[Row]:
    return rows(where, root_key)


def _tenant_columns(row: Row) -> Columns:
    state = "suspended" if row["suspended_at"] else "active"
    return row["tenant"], row["created_at"], state, row["name"]


def _users(where: str, root_key: str, options: argparse.Namespace) -> Iterator[Row]:
    query = {"prefix": options.prefix} if options.prefix else {}
    return rows(of_tenant(where, options.tenant, "users"), root_key, query)


def _user_columns(row: Row) -> Columns:
    state = "deactivated" if row["deactivated"] else "active"
    seen = f"seen {row['last_seen_at']}" if row["last_seen_at"] else "never seen"
    phone = row["phone_number"]
    if phone and not row["phone_verified"]:
        phone = f"{phone} (not verified)"
    name = row["display_name"]
    return row["user_id"], row["created_at"], state, seen, row["email"], phone, name


def _chats(where: str, root_key: str, options: argparse.Namespace) -> Iterator[Row]:
    query = {"user_id": options.user} if options.user else {}
    return rows(of_tenant(where, options.tenant, "chats"), root_key, query)


def _chat_columns(row: Row) -> Columns:
    members = f"{row['member_count']} members"
    return row["chat_id"], row["created_at"], row["type"], members, row["name"]


def _inboxes(where: str, root_key: str, options: argparse.Namespace) -> Iterator[Row]:
    return rows(of_tenant(where, options.tenant, "inboxes"), root_key)


def _inbox_columns(row: Row) -> Columns:
    return row["inbox"], row["title"]


def _scheduled(where: str, root_key: str, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a user's scheduled messages without content and files, with a token for the user."""
    body = {"user_id": options.user, "expires_in": TOKEN_SECONDS}
    made = request("POST", of_tenant(where, options.tenant, "tokens"), root_key, body)
    token = msgspec.json.decode(made)["token"]
    for row in rows(f"{where.removesuffix('/tenants')}/scheduled", token):
        del row["content"], row["attachments"]
        yield row


def _scheduled_columns(row: Row) -> Columns:
    return row["scheduled_id"], row["send_at"], row["state"], row["chat_id"], row["code"]


_LISTS: Final = {
    "tenants": _List("list the tenants, newest first", _tenants, _tenant_columns),
    "users": _List("list the users of a tenant, by id", _users, _user_columns),
    "chats": _List("list the chats of a tenant, newest first", _chats, _chat_columns),
    "inboxes": _List("list the inboxes of a tenant, by name", _inboxes, _inbox_columns),
    "scheduled": _List(
        "list the scheduled messages of a user, without content", _scheduled, _scheduled_columns
    ),
}
