# SPDX-License-Identifier: Apache-2.0
"""Commands on a running server, with the root key: dead letters, tenants and users.

`tidings jobs` lists, replays and drops dead letters. `tidings tenant` creates and deletes tenants
and creates tenant keys, `tidings user` deletes users and exports their data, `tidings job` shows
the progress of a job, and `tidings token` prints a user token.
"""

import argparse
import time
from typing import Final
from urllib.parse import quote

import msgspec

from tidings.cli.server_access import (
    add_server_option,
    known_root_key,
    of_tenant,
    print_row,
    request,
    rows,
    server_url,
)
from tidings.config import Config
from tidings.model.setup_error import SetupError

JOB_SECONDS: Final = 0.5
"""Pause between two requests for the progress of a running job."""


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
        add_server_option(action)
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
    request("POST", f"{where}/{quote(options.id, safe='')}/replay", root_key)
    print(f"{options.id} is back in the queue.")


def _drop(where: str, root_key: str, options: argparse.Namespace) -> None:
    request("DELETE", f"{where}/{quote(options.id, safe='')}", root_key)
    print(f"{options.id} is dropped.")


def _list(where: str, root_key: str, _options: argparse.Namespace) -> None:
    cursor: str | None = ""
    count = 0
    while cursor is not None:
        more = f"&cursor={quote(cursor)}" if cursor else ""
        page = msgspec.json.decode(request("GET", f"{where}?limit=100{more}", root_key), type=_Page)
        for job in page.data:
            users = f"{len(job.users)} users"
            print(f"{job.id}  {job.set_aside_at}  {job.tenant}/{job.inbox}  {users}  {job.reason}")
        count += len(page.data)
        cursor = page.next_cursor
    if not count:
        print("There are no dead letters.")


# Tenants, users and tokens.


def add_tenant_options(parser: argparse.ArgumentParser, folder: argparse.ArgumentParser) -> None:
    """Add the options of `tidings tenant`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", parents=[folder], help="create a tenant")
    create.set_defaults(act=_create_tenant)
    create.add_argument("tenant", metavar="NAME", help="the id of the tenant")
    create.add_argument("--title", help="the name of the tenant that people see")
    key = actions.add_parser("key", parents=[folder], help="create a tenant key and print it")
    key.set_defaults(act=_create_key)
    key.add_argument("tenant", metavar="NAME", help="the id of the tenant")
    delete = actions.add_parser("delete", parents=[folder], help="delete a tenant for good")
    delete.set_defaults(act=_delete_tenant)
    delete.add_argument("tenant", metavar="NAME", help="the id of the tenant")
    delete.add_argument("--yes", action="store_true", help="really delete it")
    for action in (create, key, delete):
        add_server_option(action)


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings job`."""
    parser.set_defaults(act=_print_job)
    add_server_option(parser)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("job", metavar="JOB", help="the id of the job, which a deletion prints")
    parser.add_argument("--receipt", action="store_true", help="print only the receipt")


def add_token_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings token`."""
    parser.set_defaults(act=_print_token)
    add_server_option(parser)
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("user", metavar="USER", help="the user, who is created if missing")
    parser.add_argument("--device", help="the only device that may use the token")
    parser.add_argument(
        "--expires-in", type=int, metavar="SECONDS", help="the lifetime of the token (3600)"
    )


def add_user_options(parser: argparse.ArgumentParser, folder: argparse.ArgumentParser) -> None:
    """Add the options of `tidings user`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser(
        "export", parents=[folder], help="print all data of a user, one JSON object per line"
    )
    export.set_defaults(act=_export_user)
    delete = actions.add_parser("delete", parents=[folder], help="delete a user for good")
    delete.set_defaults(act=_delete_user)
    for action in (export, delete):
        action.add_argument("tenant", metavar="TENANT", help="the tenant")
        action.add_argument("user", metavar="USER", help="the user")
        add_server_option(action)
    delete.add_argument("--yes", action="store_true", help="really delete it")


def administer(config: Config, options: argparse.Namespace) -> int:
    """Run the command on the server; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    url = server_url(config, options.server, "--server")
    options.act(f"{url.rstrip('/')}/v1/tenants", known_root_key(config), options)
    return 0


def _create_tenant(where: str, root_key: str, options: argparse.Namespace) -> None:
    body = {"name": options.title} if options.title else {}
    made = msgspec.json.decode(request("PUT", of_tenant(where, options.tenant), root_key, body))
    print(f"The tenant {made['tenant']} exists since {made['created_at']}.")


def _create_key(where: str, root_key: str, options: argparse.Namespace) -> None:
    made = request("POST", of_tenant(where, options.tenant, "keys"), root_key)
    print(msgspec.json.decode(made)["key"])


def _print_token(where: str, root_key: str, options: argparse.Namespace) -> None:
    body = {"user_id": options.user, "device": options.device, "expires_in": options.expires_in}
    given = {name: value for name, value in body.items() if value is not None}
    made = request("POST", of_tenant(where, options.tenant, "tokens"), root_key, given)
    print(msgspec.json.decode(made)["token"])


def _export_user(where: str, root_key: str, options: argparse.Namespace) -> None:
    user = quote(options.user, safe="")
    started = request("GET", of_tenant(where, options.tenant, "users", user, "export"), root_key)
    name = quote(msgspec.json.decode(started)["job"], safe="")
    path = of_tenant(where, options.tenant, "jobs", name)
    while msgspec.json.decode(request("GET", path, root_key))["state"] != "done":
        time.sleep(JOB_SECONDS)
    for row in rows(f"{path}/download", root_key, limit=None):
        print(msgspec.json.encode(row).decode())


def _delete_tenant(where: str, root_key: str, options: argparse.Namespace) -> None:
    _require_yes(options, f"the tenant {options.tenant} with everything that belongs to it")
    _print_progress(request("DELETE", of_tenant(where, options.tenant), root_key))


def _delete_user(where: str, root_key: str, options: argparse.Namespace) -> None:
    _require_yes(options, f"the user {options.user} of the tenant {options.tenant}")
    path = of_tenant(where, options.tenant, "users", quote(options.user, safe=""))
    _print_progress(request("DELETE", path, root_key))


def _print_job(where: str, root_key: str, options: argparse.Namespace) -> None:
    path = of_tenant(where, options.tenant, "jobs", quote(options.job, safe=""))
    answer = request("GET", path, root_key)
    if not options.receipt:
        _print_progress(answer)
        return
    receipt = msgspec.json.decode(answer).get("receipt")
    if receipt is None:
        raise SetupError("the job has no receipt yet")
    print(receipt)


def _require_yes(options: argparse.Namespace, what: str) -> None:
    if not options.yes:
        raise SetupError(f"this deletes {what}, and nobody can undo it: add --yes if you mean it")


def _print_progress(answer: bytes) -> None:
    job = msgspec.json.decode(answer)
    counts = ", ".join(f"{name} {number}" for name, number in job["counts"].items())
    print_row(job["job"], job["state"], job["phase"], counts or None)
