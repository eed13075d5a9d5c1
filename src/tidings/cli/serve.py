# SPDX-License-Identifier: Apache-2.0
"""`tidings serve`: runs the server, prints its URL and how to try it, and logs JSON lines."""

import argparse
import errno
import gc
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import Final

from tidings.config import ROLES, Config, DynamoDb
from tidings.logs.requests import current_requests, texts_of
from tidings.model.ids import rfc3339
from tidings.model.setup_error import SetupError

STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every log record. All others are fields of its action."""
_REQUESTS_MAX: Final = 20
"""Maximum number of requests that one line names. A batch may have more."""
_SOCKET: Final = "tidings.socket"
_ADDRESS_TROUBLE: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)

_TRY_IT = """\
Try it: paste this into a second terminal (bash, with curl and python3).

BASE={url}
ROOT={root_key}
call()  {{ curl -sS -X "$1" "$BASE$2" -H "Authorization: Bearer $3" \\
            -H 'Content-Type: application/json' ${{4:+-d "$4"}}; }}
field() {{ python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }}

# A tenant (your product) and its key
call PUT /v1/tenants/acme "$ROOT" '{{"name": "Acme"}}'; echo
KEY=$(call POST /v1/tenants/acme/keys "$ROOT" | field key)

# A token for each of two users
ALICE=$(call POST /v1/tenants/acme/tokens "$KEY" '{{"user_id": "alice"}}' | field token)
BOB=$(call POST /v1/tenants/acme/tokens "$KEY" '{{"user_id": "bob"}}' | field token)

# Alice opens a chat and writes; Bob reads the history
CHAT=$(call POST /v1/chats "$ALICE" '{{"type": "direct", "members": ["bob"]}}' | field chat_id)
call POST "/v1/chats/$CHAT/messages" "$ALICE" \\
  '{{"client_message_id": "hello-1", "content": "Hello Bob!"}}'; echo
call GET "/v1/chats/$CHAT/messages" "$BOB"; echo

# Users log in by phone only at a tenant whose settings say {{"login": {{"phone": true}}}}
"""

_DEMO = """\
Open {url} in two windows: in one sign in as Alice, in the other as Bob.
"""

_KEY_FILE = """\
The master key, which encrypts all content, is in {path}, beside the data.
  It protects   a stolen copy of the database file alone, a backup made without the key file,
                stray disk blocks of the database.
  It does not   protect against someone who can read the whole folder or disk, or the memory of
                the running server: they have key and data. For that, keep the key elsewhere
                and hand it over as TIDINGS_MASTER_KEY.
  Keep a copy   apart from the data: without the key the content is lost.
"""

_KEY_FILE_OF_TABLES = """\
The master key, which encrypts all content, is in {path}.
  It protects   the tables and every backup of them: content in them is encrypted.
  It does not   protect against someone who can read both the tables and this folder, or the
                memory of the running server.
  Keep a copy   apart from this machine: without the key the content is lost.
"""

_KEY_FROM_ENVIRONMENT = """\
The master key, which encrypts all content, comes from TIDINGS_MASTER_KEY.
  It protects   {what} and every backup of {it}, as long as the key is not in {it}.
  It does not   protect against someone who can read the memory or the environment of the
                running server.
  Keep a copy   in a safe place: without the key the content is lost.
"""

_IN_PUBLIC = """\
Others can reach {host}, and this port speaks plain HTTP: tokens and content pass unencrypted.
Name a certificate with TIDINGS_TLS_CERT, or put a proxy that speaks TLS in front of it and let
nobody else reach the port.
"""


def serve(config: Config, options: argparse.Namespace) -> int:
    """Run the server until a signal to stop; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
        StoreUnavailable: The store cannot be reached now.
    """
    gc.disable()  # nothing that an import makes is garbage, and looking for it takes time
    # Imported here, because the other commands start faster without the server.
    import uvloop

    from tidings import assembly
    from tidings.assembly import server

    has_demo: bool = options.demo
    if has_demo and config.network.is_public:
        raise SetupError(
            f"--demo lets everybody sign in, and {config.network.why_public}: leave --demo out "
            "(in a clone of the repository: make run DEMO=)"
        )

    def announce(url: str) -> None:
        files = assembly.key_files(config)
        print(welcome(config, url, *files, has_demo=has_demo), flush=True)

    start_logging(config.process.log_level)
    try:
        if config.process.processes > 1:
            from tidings.cli.serve_many import serve_many

            return serve_many(config, announce, has_demo=has_demo)
        gc.freeze()
        gc.enable()
        return uvloop.run(server.serve(config, announce, has_demo=has_demo))
    except OSError as error:
        raise SetupError(in_words(error, config)) from error


def in_words(error: OSError, config: Config) -> str:
    """Convert a system error that the operator can fix to an explanation; re-raise any other."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno in _ADDRESS_TROUBLE:
        network = config.network
        return f"cannot listen on {network.host}:{network.port}: {error.strerror}"
    raise error


def welcome(
    config: Config,
    url: str,
    root_key_source: Path | None,
    master_key_source: Path | None,
    *,
    has_demo: bool = False,
) -> str:
    """Return the start-up text.

    Each `..._source` is the file that holds the key, or None if the key is in the settings.
    """
    root_key = root_key_source.absolute() if root_key_source else "TIDINGS_ROOT_KEY"
    lines = [f"Tidings is serving at {url}", f"  data     {_data(config)}"]
    if config.process.roles != ROLES:
        lines.append(f"  roles    {', '.join(config.process.roles)}")
    if "api" in config.process.roles:
        lines[1:1] = [
            f"  web app  {url}/",
            f"  console  {url}/console (open it with the root key)",
            f"  API      {url}/docs",
        ]
        # Clients use the name in the certificate, which the address to listen on is not.
        public_url = config.network.public_url if config.network.tls_cert else None
        base = shlex.quote(public_url or url)
        try_it = _TRY_IT.format(url=base, root_key=_read(root_key_source))
        lines += [f"  root key {root_key}", "", try_it]
    if not config.network.is_loopback and config.network.tls_cert is None:
        lines.append(_IN_PUBLIC.format(host=config.network.host))
    lines.append(_about_master_key(config, master_key_source))
    if has_demo:
        lines.append(_DEMO.format(url=url))
    return "\n".join(lines)


def _data(config: Config) -> str:
    tables = config.store
    if not isinstance(tables, DynamoDb):
        return str(config.data.absolute())
    return f"tables {tables.prefix}* at {tables.endpoint or f'DynamoDB in {tables.region}'}"


def _read(root_key_source: Path | None) -> str:
    if root_key_source is None:
        return '"$TIDINGS_ROOT_KEY"'
    return f'"$(cat {shlex.quote(str(root_key_source.absolute()))})"'


def _about_master_key(config: Config, source: Path | None) -> str:
    is_embedded = not isinstance(config.store, DynamoDb)
    if source is None:
        what, it = ("the whole data folder", "it") if is_embedded else ("the tables", "them")
        return _KEY_FROM_ENVIRONMENT.format(what=what, it=it)
    text = _KEY_FILE if is_embedded else _KEY_FILE_OF_TABLES
    return text.format(path=source.absolute())


class JsonLines(logging.Formatter):
    """Formats a log record as JSON: time, level, logger, message, requests, fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": rfc3339(int(record.created * 1_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if requests := texts_of(current_requests()[:_REQUESTS_MAX]):
            line |= {"request": requests[0]} if len(requests) == 1 else {"requests": requests}
        line |= {name: value for name, value in vars(record).items() if name not in STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _ExpectedOfClients(logging.Filter):
    """Drops log records about broken frames and handshakes, which are mistakes of clients."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.name.startswith(_SOCKET) or not record.getMessage().startswith(
            ("WS parser error", "Disconnect client")
        )


def start_logging(level: str) -> None:
    """Log records of this level and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # The filter is on the handler, because each socket has its own logger, and filters of a parent
    # logger do not apply to its records.
    handler.addFilter(_ExpectedOfClients())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in (_SOCKET, "uvicorn.error", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
