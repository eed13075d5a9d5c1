# SPDX-License-Identifier: Apache-2.0
"""`tidings notify`: posts a notification to listed users or to everyone, and shows progress."""

import argparse
import asyncio
import csv
import os
import re
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidings.cli.environment import TENANT_KEY
from tidings.cli.server_access import known_root_key, need_client, server_url, trust_of
from tidings.cli.terminal import ProgressLine, bar
from tidings.config import Config
from tidings.model.ids import USER
from tidings.model.limits import AUDIENCE_USERS_MAX
from tidings.model.setup_error import SetupError

HEADINGS: Final = ("user_id", "uid")
BYTE_ORDER_MARK: Final = "\ufeff"
"""Character that some spreadsheets write at the start of a file."""
LOOK_SECONDS: Final = 0.25
UNFINISHED: Final = 1
_KEY: Final = re.compile("[!-~]{1,200}")


def read_users(name: str) -> list[str]:
    """Return the user ids in a file, without repetitions; `-` is standard input.

    Raises:
        SetupError: The file cannot be read, or a line is not a user id; the text names the line.
    """
    try:
        if name == "-":
            return _users_in(sys.stdin, "standard input")
        # Text that is not UTF-8 is not a user id either, and is reported with its line.
        with Path(name).open(encoding="utf-8", errors="replace", newline="") as lines:
            return _users_in(lines, name)
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from error


def _users_in(lines: Iterable[str], name: str) -> list[str]:
    reader = csv.reader(lines)
    found: dict[str, None] = {}
    try:
        for number, row in enumerate(reader):
            first = row[0].strip().removeprefix(BYTE_ORDER_MARK).strip() if row else ""
            if not first or (number == 0 and first.lower() in HEADINGS):
                continue
            if USER.fullmatch(first) is None:
                raise SetupError(f"{name}, line {reader.line_num}: {first!r:.80} is not a user id")
            found[first] = None
    except csv.Error as error:
        raise SetupError(f"{name}, line {reader.line_num}: {error}") from error
    if not found:
        raise SetupError(f"{name} contains no user id")
    return list(found)


if TYPE_CHECKING:
    from tidings_client import NewNotification, Posted, Progress, TenantApi


def add_notify_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings notify`."""
    parser.add_argument("--tenant", required=True, help="the tenant")
    parser.add_argument("--inbox", required=True, help="the inbox of the tenant")
    audience = parser.add_mutually_exclusive_group(required=True)
    audience.add_argument(
        "--users", metavar="FILE", help="a CSV file with user ids in its first column; - is stdin"
    )
    audience.add_argument(
        "--everyone", action="store_true", help="send a broadcast to all users of the tenant"
    )
    parser.add_argument("--title", required=True, help="the title of the notification")
    parser.add_argument("--body", required=True, help="the text of the notification")
    parser.add_argument("--category", help="a category that the inbox allows")
    parser.add_argument("--cta-uri", metavar="URI", help="the link that a tap opens")
    parser.add_argument("--sender", help="the sender that users see")
    parser.add_argument(
        "--collapse-key",
        metavar="NAME",
        help="users see only the newest notification with this name",
    )
    parser.add_argument(
        "--expires-at",
        metavar="TIME",
        type=_time,
        help="the time from which users do not see it, such as 2030-05-17T12:00:00Z",
    )
    parser.add_argument(
        "--key", type=_key, help="an idempotency key: a repeat within a day notifies nobody twice"
    )
    parser.add_argument("--url", help="the server (the one that runs on the data folder)")


def _time(text: str) -> datetime:
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time
    raise argparse.ArgumentTypeError("must be a time with a zone, as in RFC 3339")


def _key(text: str) -> str:
    if _KEY.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            "must be 1 to 200 printable ASCII characters without spaces"
        )
    return text


def notify(config: Config, options: argparse.Namespace) -> int:
    """Post the notification and show its progress; return 1 if it was retracted, else 0.

    Raises:
        SetupError: The operator has to change something first.
    """
    need_client()
    from tidings_client import Refused, Unavailable

    users = None if options.everyone else read_users(options.users)
    url = server_url(config, options.url, "--url")
    access = os.environ.get(TENANT_KEY) or known_root_key(config)
    request_key = options.key or secrets.token_hex(16)
    try:
        return asyncio.run(_notify(url, access, options, users, request_key))
    except Refused as refused:
        raise SetupError(f"the server at {url} declined: {refused.detail}") from refused
    except Unavailable as error:
        why = f"the server at {url} does not answer: {error}"
    except KeyboardInterrupt:
        why = "interrupted; what was posted will still be delivered"
    again = (
        f"Repeat the command with --key {request_key}: it continues, and nobody is notified twice."
    )
    raise SetupError(f"{why}\n{again}", exit_code=UNFINISHED)


async def _notify(
    url: str,
    access: str,
    options: argparse.Namespace,
    users: list[str] | None,
    request_key: str,
) -> int:
    from tidings_client import NewNotification, TenantApi

    notification = NewNotification(
        title=options.title,
        body=options.body,
        cta_uri=options.cta_uri,
        category=options.category,
        sender=options.sender,
        collapse_key=options.collapse_key,
        expires_at=options.expires_at,
    )
    async with TenantApi(url, options.tenant, access, ssl_context=trust_of(url)) as api:
        if users is None:
            posted = await api.post_to_everyone(options.inbox, notification, key=request_key)
            print(f"{posted.id}  everyone, about {_users(posted.recipients)}", flush=True)
            return 0
        portions = await _post(api, options.inbox, notification, users, request_key)
        return await _follow(api, options.inbox, portions)


async def _post(
    api: "TenantApi",
    inbox: str,
    notification: "NewNotification",
    users: list[str],
    request_key: str,
) -> "list[Posted]":
    """Post the notification in portions of the largest size that a request can have.

    Each portion has its own idempotency key. The first has the given key itself, so that the server
    refuses the key if it was used with another file.
    """
    posted: list[Posted] = []
    with ProgressLine() as line:
        for start in range(0, len(users), AUDIENCE_USERS_MAX):
            line.show(f"posting {bar(start, len(users))}")
            portion = users[start : start + AUDIENCE_USERS_MAX]
            key = request_key if start == 0 else f"{request_key}.{len(posted) + 1}"
            post = await api.post_to_users(inbox, portion, notification, key=key)
            line.clear()
            print(f"{post.id}  {_users(post.recipients)}", flush=True)
            posted.append(post)
    return posted


async def _follow(api: "TenantApi", inbox: str, posted: "list[Posted]") -> int:
    """Show the progress until all users have received the notification; return the exit code."""
    total = sum(post.recipients for post in posted)
    over: dict[str, Progress] = {}
    with ProgressLine() as line:
        while True:
            delivered = 0
            for post in posted:
                progress = over.get(post.id) or await api.progress(inbox, post.id)
                delivered += progress.delivered
                if progress.status in ("done", "redacted"):
                    over[post.id] = progress
            if len(over) == len(posted):
                break
            line.show(bar(delivered, total))
            await asyncio.sleep(LOOK_SECONDS)
    is_redacted = any(progress.status == "redacted" for progress in over.values())
    print(f"{delivered:,} of {total:,} users have it.")
    if is_redacted:
        print("It was retracted meanwhile.")
    return UNFINISHED if is_redacted else 0


def _users(count: int) -> str:
    return "1 user" if count == 1 else f"{count:,} users"
