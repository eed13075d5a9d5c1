# SPDX-License-Identifier: Apache-2.0
"""The command `tidings`: parses arguments, runs commands, and turns errors into exit codes."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidings import __version__
from tidings.cli import export, keys
from tidings.cli.bench import add_bench_options, bench
from tidings.cli.capacity import add_capacity_options, capacity
from tidings.cli.chat import chat
from tidings.cli.jobs import add_jobs_options, jobs
from tidings.cli.logs import start_logging
from tidings.cli.notify import TENANT_KEY, add_notify_options, notify
from tidings.cli.schema import add_schema_options, schema
from tidings.cli.welcome import welcome
from tidings.config import FILE_NAME, ROLES, Config, load_config
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError

UNREACHED: Final = 1
"""Exit code when a retry may succeed."""

_ADDRESS_TROUBLE: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
_FLAGS: Final = ("host", "port", "data", "roles")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        return _run(options)
    except SetupError as error:
        return _fail(str(error), error.exit_code)
    except StoreUnavailable as reason:
        return _fail(f"{reason.title}: {reason.__cause__ or reason.detail}", UNREACHED)


def _run(options: argparse.Namespace) -> int:
    if options.command == "version":
        print(f"tidings {__version__}")
        return 0
    if options.command == "schema":
        return schema(options)  # has settings of its own
    if options.command == "capacity":
        return capacity(options)
    given = {name: getattr(options, name, None) for name in _FLAGS}
    # The tenant key belongs to a command and is not a setting of the server.
    environment = {name: text for name, text in os.environ.items() if name != TENANT_KEY}
    config = load_config(given, environment, Path(FILE_NAME))
    match options.command, options.action:
        case "serve", _:
            return _serve(config)
        case "chat", _:
            return chat(config, options)
        case "notify", _:
            return notify(config, options)
        case "bench", _:
            return bench(config, options)
        case "jobs", _:
            return jobs(config, options)
        case "export", _:
            return export.export(config, options.file)
        case "import", _:
            return export.import_(config, options.file, unsigned=options.unsigned)
        case "keys", "rotate":
            return keys.rotate(config)
        case "keys", _:
            return keys.status(config)
        case _:
            print("Configuration OK.")
            return 0


def _serve(config: Config) -> int:
    # Imported here because the other commands start faster without the server.
    import uvloop

    from tidings import assembly
    from tidings.assembly import server

    def announce(url: str) -> None:
        print(welcome(config, url, *assembly.key_files(config)), flush=True)

    start_logging(config.process.log_level)
    try:
        return uvloop.run(server.serve(config, announce))
    except OSError as error:
        raise SetupError(_in_words(error, config)) from error


def _in_words(error: OSError, config: Config) -> str:
    """Explain a system error that the operator can fix; re-raise any other."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno in _ADDRESS_TROUBLE:
        network = config.network
        return f"cannot listen on {network.host}:{network.port}: {error.strerror}"
    raise error


def _fail(reason: str, exit_code: int) -> int:
    print(f"tidings: {reason}", file=sys.stderr)
    return exit_code


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with every command; the reference page is generated from it."""
    parser = argparse.ArgumentParser(prog="tidings", description="A messaging backend.")
    parser.add_argument("--version", action="version", version=f"tidings {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--data", metavar="FOLDER", help="the data folder (./tidings-data)")
    address = argparse.ArgumentParser(add_help=False)
    address.add_argument("--host", help="the address to listen on (127.0.0.1)")
    address.add_argument("--port", help="the port to listen on (8080)")
    address.add_argument(
        "--roles", help=f"roles of this process, separated by commas ({','.join(ROLES)})"
    )

    serve = commands.add_parser("serve", parents=[address, folder], help="run the server")
    serve.set_defaults(action=None)
    config = commands.add_parser("config", help="check the configuration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "check",
        parents=[address, folder],
        help="report every mistake in the settings, without starting",
    )
    key = commands.add_parser("keys", help="manage the master key")
    actions = key.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "rotate", parents=[folder], help="rotate the master key, without stopping a running server"
    )
    actions.add_parser("status", parents=[folder], help="show which master key is in use")
    add_jobs_options(
        commands.add_parser("jobs", help="manage dead letters: delivery jobs that failed"), folder
    )
    _add_chat(commands.add_parser("chat", parents=[folder], help="interactive demo chat"))
    add_notify_options(commands.add_parser("notify", parents=[folder], help="send a notification"))
    add_bench_options(
        commands.add_parser(
            "bench", parents=[folder], help="measure the throughput of a deployment"
        )
    )
    add_schema_options(commands.add_parser("schema", help="manage the tables on DynamoDB"))
    add_capacity_options(
        commands.add_parser(
            "capacity", help="plan the capacity and cost of a deployment on DynamoDB"
        )
    )
    export.add_moving_options(
        commands.add_parser("export", parents=[folder], help="write all data to a file")
    )
    export.add_import_options(
        commands.add_parser(
            "import", parents=[folder], help="read all data from a file into an empty store"
        )
    )
    commands.add_parser("version", help="print the version")
    return parser


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="me", metavar="USER", required=True, help="your user id")
    parser.add_argument("--with", dest="other", metavar="USER", help="the other user (bob)")
    parser.add_argument(
        "--server", metavar="URL", help="the server (the one that runs on the data folder)"
    )
    parser.add_argument("--tenant", default="demo", help="the tenant of both users (demo)")
    parser.set_defaults(action=None)
