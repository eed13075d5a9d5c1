# SPDX-License-Identifier: Apache-2.0
"""`tidings jobs`: lists, replays and drops dead letters of a running server."""

import argparse
import http.client
import urllib.error
from typing import Final
from urllib.parse import quote

import msgspec

from tidings.cli.keys import running_server
from tidings.cli.root_request import ask, detail
from tidings.config import Config
from tidings.keyrings.root import read_root_key
from tidings.model.setup_error import SetupError

ANSWER_SECONDS_MAX: Final = 30.0


class _Aside(msgspec.Struct):
    id: str
    tenant: str
    inbox: str
    users: list[str]
    reason: str
    set_aside_at: str


class _Page(msgspec.Struct):
    data: list[_Aside]
    next_cursor: str | None


def add_jobs_options(parser: argparse.ArgumentParser, folder: argparse.ArgumentParser) -> None:
    """Add the options of `tidings jobs`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for word, does in (
        ("list", "list the dead letters: delivery jobs that failed too often"),
        ("replay", "put a dead letter back into the queue"),
        ("drop", "delete a dead letter"),
    ):
        action = actions.add_parser(word, parents=[folder], help=does)
        action.add_argument(
            "--server", metavar="URL", help="the server (the one that runs on the data folder)"
        )
        if word != "list":
            action.add_argument("id", metavar="ID", help="the id of the job, from `list`")


def jobs(config: Config, options: argparse.Namespace) -> int:
    """Run the action; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    url = options.server or running_server(config.data)
    if url is None:
        raise SetupError(
            f"no server has {config.data} open: start one with `tidings serve`, or name one with "
            "--data or --server"
        )
    root_key = config.keys.root_key or read_root_key(config.data)
    if root_key is None:
        raise SetupError(f"there is no root key in {config.data}, and TIDINGS_ROOT_KEY is not set")
    where = f"{url.rstrip('/')}/v1/jobs/aside"
    match options.action:
        case "list":
            _list(where, root_key)
        case "replay":
            _ask("POST", f"{where}/{quote(options.id, safe='')}/replay", root_key)
            print(f"{options.id} is back in the queue.")
        case _:
            _ask("DELETE", f"{where}/{quote(options.id, safe='')}", root_key)
            print(f"{options.id} is dropped.")
    return 0


def _list(where: str, root_key: str) -> None:
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
