# SPDX-License-Identifier: Apache-2.0
"""What the server says when it has started: where it is, what to try, what its keys protect."""

import shlex
from pathlib import Path

from tidings.config import Config

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
"""

_KEY_FILE = """\
The master key, which seals all content, is in {path}, beside the data.
  It protects   a stolen copy of the database file alone, a backup made without the key file,
                stray disk blocks of the database.
  It does not   protect against someone who can read the whole folder or disk, or the memory of
                the running server: they have key and data. For that, keep the key elsewhere
                and hand it over as TIDINGS_MASTER_KEY.
  Keep a copy   apart from the data: without the key the content is lost.
"""

_KEY_FROM_ENVIRONMENT = """\
The master key, which seals all content, comes from TIDINGS_MASTER_KEY.
  It protects   the whole data folder and every backup of it, as long as the key is not in it.
  It does not   protect against someone who can read the memory or the environment of the
                running server.
  Keep a copy   in a safe place: without the key the content is lost.
"""


def welcome(
    config: Config, url: str, root_key_source: Path | None, master_key_source: Path | None
) -> str:
    """The start-up text. A source is the file that holds the key; None means the environment."""
    return "\n".join(
        [
            f"Tidings is serving at {url}",
            f"  API      {url}/docs",
            f"  data     {config.data.absolute()}",
            f"  root key {root_key_source.absolute() if root_key_source else 'TIDINGS_ROOT_KEY'}",
            "",
            _TRY_IT.format(url=shlex.quote(url), root_key=_read(root_key_source)),
            _about_master_key(master_key_source),
        ]
    )


def _read(root_key_source: Path | None) -> str:
    if root_key_source is None:
        return '"$TIDINGS_ROOT_KEY"'
    return f'"$(cat {shlex.quote(str(root_key_source.absolute()))})"'


def _about_master_key(source: Path | None) -> str:
    if source is None:
        return _KEY_FROM_ENVIRONMENT
    return _KEY_FILE.format(path=source.absolute())
