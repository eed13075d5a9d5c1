# SPDX-License-Identifier: Apache-2.0
"""The command `tidings`: parses arguments, runs subcommands, and converts errors to exit codes."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidings import __version__
from tidings.cli.environment import TENANT_KEY
from tidings.cli.exit_codes import exit_code_of
from tidings.cli.serve import serve
from tidings.config import FILE_NAME, ROLES, Config, load_config

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_FLAGS: Final = ("host", "port", "data", "roles", "processes", "tls_cert", "tls_key")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    options = make_parser(is_server="serve" in words[:1]).parse_args(words)
    return exit_code_of(lambda: options.run(options))


def _with_settings(
    command: Callable[[Config, argparse.Namespace], int],
) -> Callable[[argparse.Namespace], int]:
    """Return a function that loads the settings and then runs the command."""

    def run(options: argparse.Namespace) -> int:
        return command(load_config(*_given(options), Path(FILE_NAME)), options)

    return run


def _given(options: argparse.Namespace) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the settings from flags, and those from the environment."""
    flags = {name: getattr(options, name, None) for name in _FLAGS}
    # The tenant key belongs to a command and is not a setting of the server.
    return flags, {name: text for name, text in os.environ.items() if name != TENANT_KEY}


def _doctor(options: argparse.Namespace) -> int:
    from tidings.cli.doctor import doctor

    return doctor(*_given(options), options)


def _version(_options: argparse.Namespace) -> int:
    print(f"tidings {__version__}")
    return 0


def _check(_config: Config, _options: argparse.Namespace) -> int:
    print("Configuration OK.")
    return 0


def _show(config: Config, _options: argparse.Namespace) -> int:
    from tidings.cli.server_access import print_row

    for setting in config.settings:
        value = "(secret)" if setting.is_secret else setting.value or "(none)"
        print_row(setting.name, value, setting.source)
    return 0


def make_parser(*, is_server: bool = False) -> argparse.ArgumentParser:
    """Return the parser of all commands. The reference page is generated from it.

    Each group of commands imports its modules when it is added. A server is started often and has
    to start fast: with `is_server`, the parser has only the group with `serve`.
    """
    parser = argparse.ArgumentParser(prog="tidings", description="A messaging backend.")
    parser.add_argument("--version", action="version", version=f"tidings {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--data", metavar="FOLDER", help="the data folder (./tidings-data)")
    address = _address_options()
    _add_server_commands(commands, address, folder)
    if is_server:
        return parser
    _add_operator_commands(commands, address, folder)
    _add_admin_commands(commands, folder)
    _add_state_commands(commands, folder)
    _add_client_commands(commands, folder)
    _add_data_commands(commands, folder)
    _add_backup_commands(commands, folder)
    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    return parser


def _address_options() -> argparse.ArgumentParser:
    address = argparse.ArgumentParser(add_help=False)
    address.add_argument("--host", help="the address to listen on (127.0.0.1)")
    address.add_argument("--port", help="the port to listen on (8080)")
    address.add_argument(
        "--tls-cert", metavar="FILE", help="the certificate with which the port speaks TLS (none)"
    )
    address.add_argument(
        "--tls-key", metavar="FILE", help="its key, if that is in a file of its own"
    )
    address.add_argument(
        "--roles", help=f"roles of this process, separated by commas ({','.join(ROLES)})"
    )
    return address


def _add_server_commands(
    commands: "_Commands", address: argparse.ArgumentParser, folder: argparse.ArgumentParser
) -> None:
    server = commands.add_parser("serve", parents=[address, folder], help="run the server")
    server.add_argument(
        "--demo",
        action="store_true",
        help="create the demo users Alice, Bob and Carol, as whom anybody on this machine can "
        "sign in",
    )
    server.add_argument(
        "--processes", metavar="N", help="processes that hold sockets, beside one for the store (1)"
    )
    server.set_defaults(run=_with_settings(serve))
    config = commands.add_parser("config", help="check the configuration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "check",
        parents=[address, folder],
        help="report every mistake in the settings, without starting",
    ).set_defaults(run=_with_settings(_check))
    actions.add_parser(
        "show",
        parents=[address, folder],
        help="list the settings in effect with their sources, without starting",
    ).set_defaults(run=_with_settings(_show))


def _add_operator_commands(
    commands: "_Commands", address: argparse.ArgumentParser, folder: argparse.ArgumentParser
) -> None:
    from tidings.cli import keys
    from tidings.cli.doctor import add_doctor_options

    examined = commands.add_parser(
        "doctor",
        parents=[address, folder],
        help="examine settings, machine, store and services, and say what to do",
    )
    examined.set_defaults(run=_doctor)  # wrong settings are findings, too
    add_doctor_options(examined)
    key = commands.add_parser("keys", help="manage the master key")
    actions = key.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "rotate", parents=[folder], help="rotate the master key, without stopping a running server"
    ).set_defaults(run=_with_settings(keys.rotate))
    actions.add_parser(
        "status", parents=[folder], help="show which master key is in use"
    ).set_defaults(run=_with_settings(keys.status))


def _add_admin_commands(commands: "_Commands", folder: argparse.ArgumentParser) -> None:
    from tidings.cli.admin import (
        add_job_options,
        add_jobs_options,
        add_tenant_options,
        add_token_options,
        add_user_options,
        administer,
        jobs,
    )
    from tidings.cli.api_request import add_api_options, api
    from tidings.cli.lists import add_list_options

    tenant = commands.add_parser("tenant", help="create or delete a tenant, or create a key")
    add_tenant_options(tenant, folder)
    token = commands.add_parser("token", parents=[folder], help="print a token for a user")
    add_token_options(token)
    user = commands.add_parser("user", help="delete a user, or export a user's data")
    add_user_options(user, folder)
    job = commands.add_parser("job", parents=[folder], help="show the progress of a job")
    add_job_options(job)
    lists = [
        commands.add_parser(name, help=f"list {name}")
        for name in ("tenants", "users", "chats", "inboxes")
    ]
    lists.append(commands.add_parser("scheduled", help="list scheduled messages"))
    for listed in lists:
        add_list_options(listed, folder)
    for parser in (tenant, token, user, job, *lists):
        parser.set_defaults(run=_with_settings(administer))
    request = commands.add_parser(
        "api", parents=[folder], help="send any request to the REST API, with the root key"
    )
    request.set_defaults(run=_with_settings(api))
    add_api_options(request)
    dead = commands.add_parser("jobs", help="manage dead letters: delivery jobs that failed")
    dead.set_defaults(run=_with_settings(jobs))
    add_jobs_options(dead, folder)


def _add_state_commands(commands: "_Commands", folder: argparse.ArgumentParser) -> None:
    from tidings.cli.state import (
        add_audit_options,
        add_connections_options,
        add_explain_options,
        add_reports_options,
        add_state_options,
        add_trace_options,
        show,
    )

    state = commands.add_parser(
        "state", parents=[folder], help="show the processes, the store and the newest backup"
    )
    add_state_options(state)
    connections = commands.add_parser(
        "connections", parents=[folder], help="list the open connections of a user"
    )
    add_connections_options(connections)
    acts = commands.add_parser(
        "audit", parents=[folder], help="list the administrative acts, newest first"
    )
    add_audit_options(acts)
    explained = commands.add_parser(
        "explain", parents=[folder], help="explain why a message did not arrive"
    )
    add_explain_options(explained)
    traced = commands.add_parser(
        "trace", parents=[folder], help="show what is delivered to a user or in a chat, live"
    )
    add_trace_options(traced)
    reported = commands.add_parser(
        "reports", parents=[folder], help="list what users have reported, newest first"
    )
    add_reports_options(reported)
    for parser in (state, connections, acts, explained, traced, reported):
        parser.set_defaults(run=_with_settings(show))


def _add_client_commands(commands: "_Commands", folder: argparse.ArgumentParser) -> None:
    from tidings.cli.bench import add_bench_options, bench
    from tidings.cli.chat import add_chat_options, chat
    from tidings.cli.listen import add_listen_options, listen
    from tidings.cli.notify import add_notify_options, notify

    talk = commands.add_parser("chat", parents=[folder], help="interactive demo chat")
    talk.set_defaults(run=_with_settings(chat))
    add_chat_options(talk)
    post = commands.add_parser("notify", parents=[folder], help="send a notification")
    post.set_defaults(run=_with_settings(notify))
    add_notify_options(post)
    heard = commands.add_parser(
        "listen", parents=[folder], help="show the events of a tenant live, and forward them"
    )
    heard.set_defaults(run=_with_settings(listen))
    add_listen_options(heard)
    load = commands.add_parser(
        "bench", parents=[folder], help="measure the throughput of a deployment"
    )
    load.set_defaults(run=_with_settings(bench))
    add_bench_options(load)


def _add_data_commands(commands: "_Commands", folder: argparse.ArgumentParser) -> None:
    from tidings.cli import export, keys
    from tidings.cli.capacity import add_capacity_options, capacity
    from tidings.cli.schema import add_schema_options, schema

    tables = commands.add_parser("schema", help="manage the tables on DynamoDB")
    tables.set_defaults(run=schema)  # has settings of its own
    add_schema_options(tables)
    plan = commands.add_parser(
        "capacity", help="plan the capacity and cost of a deployment on DynamoDB"
    )
    plan.set_defaults(run=capacity)
    add_capacity_options(plan)
    out = commands.add_parser("export", parents=[folder], help="write all data to a file")
    out.set_defaults(run=_with_settings(export.export))
    export.add_moving_options(out)
    back = commands.add_parser(
        "import", parents=[folder], help="read all data from a file into an empty store"
    )
    back.set_defaults(run=_with_settings(export.import_))
    export.add_import_options(back)
    erasures = commands.add_parser("erasures", help="repeat erasures after a restore")
    actions = erasures.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "replay", parents=[folder], help="carry out the erasures that restored tables do not know"
    ).set_defaults(run=_with_settings(keys.replay_erasures))


def _add_backup_commands(commands: "_Commands", folder: argparse.ArgumentParser) -> None:
    from tidings.cli import backup, verify

    saved = commands.add_parser(
        "backup", parents=[folder], help="back up the embedded store while the server runs"
    )
    saved.set_defaults(run=_with_settings(backup.backup))
    backup.add_backup_options(saved)
    restored = commands.add_parser(
        "restore", parents=[folder], help="restore a backup into an empty folder"
    )
    restored.set_defaults(run=_with_settings(backup.restore))
    backup.add_restore_options(restored)
    verified = commands.add_parser(
        "verify", parents=[folder], help="check the stored data, without changing it"
    )
    verified.set_defaults(run=_with_settings(verify.verify))
    verify.add_verify_options(verified)
    repaired = commands.add_parser(
        "repair",
        parents=[folder],
        help="after a restore of the tables on DynamoDB: make them agree with the logs",
    )
    repaired.set_defaults(run=_with_settings(verify.repair))
    verify.add_repair_options(repaired)
    drill = commands.add_parser(
        "drill", parents=[folder], help="make a backup, restore it elsewhere and verify it"
    )
    drill.set_defaults(run=_with_settings(verify.drill))
    verify.add_drill_options(drill)
