# SPDX-License-Identifier: Apache-2.0
"""`tidings jobs`: lists, replays and drops dead letters of a running server."""

import argparse
import http.client
import urllib.error
from typing import Final
from urllib.parse import quote

import msgspec

from tidings.cli.server_access import ask, detail, known_root_key, server_url
from tidings.config import Config
from tidings.model.setup_error import SetupError

ANSWER_SECONDS_MAX: Final = 30.0


class _DeadLetter(msgspec.Struct):
    id: str
    tenant: str
    inbox: str
    users: list[str]
    reason: str
    set_aside_at: str


class _Page(msgspec.Struct):
    data: list[_DeadLetter]
    next_cursor: str | None


def add_jobs_options(parser: argparse.ArgumentParser, folder: argparse.ArgumentParser) -> None:
    """Add the options of `tidings jobs`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for word, act, does in (
        ("list", _list, "list the dead letters: delivery jobs that failed too often"),
        ("replay", _replay, "put a dead letter back into the queue"),
        ("drop", _drop, "delete a dead letter"),
    ):
        action = actions.add_parser(word, parents=[folder], help=does)
        action.set_defaults(act=act)
        action.add_argument(
            "--server", metavar="URL", help="the server (the one that runs on the data folder)"
        )
        if word != "list":
            action.add_argument("id", metavar="ID", help="the id of the job, from `list`")


def jobs(config: Config, options: argparse.Namespace) -> int:
    """Run the chosen action on dead letters; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    url = server_url(config, options.server, "--server")
    options.act(f"{url.rstrip('/')}/v1/jobs/aside", known_root_key(config), options)
    return 0


def _replay(where: str, root_key: str, options: argparse.Namespace) -> None:
    _ask("POST", f"{where}/{quote(options.id, safe='')}/replay", root_key)
    print(f"{options.id} is back in the queue.")


def _drop(where: str, root_key: str, options: argparse.Namespace) -> None:
    _ask("DELETE", f"{where}/{quote(options.id, safe='')}", root_key)
    print(f"{options.id} is dropped.")


def _list(where: str, root_key: str, _options: argparse.Namespace) -> None:
    cursor: str | None = ""
    count = 0
    while cursor is not None:
        more = f"&cursor={quote(cursor)}" if cursor else ""
        page = msgspec.json.decode(_ask("GET", f"{where}?limit=100{more}", root_key), type=_Page)
        for job in page.data:
            users = f"{len(job.users)} users"
            print(f"{job.id}  {job.set_aside_at}  {job.tenant}/{job.inbox}  {users}  {job.reason}")
        count += len(page.data)
        cursor = page.next_cursor
    if not count:
        print("There are no dead letters.")


def _ask(method: str, url: str, root_key: str) -> bytes:
    try:
        return ask(method, url, root_key, ANSWER_SECONDS_MAX)
    except urllib.error.HTTPError as error:
        raise SetupError(f"the server declined: {detail(error)}") from None
    except (http.client.HTTPException, OSError) as error:
        raise SetupError(f"the server does not answer: {error}") from None
