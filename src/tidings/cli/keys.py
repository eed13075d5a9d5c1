# SPDX-License-Identifier: Apache-2.0
"""`tidings keys`: rotates the master key, with or without a running server, and shows its id.

`tidings erasures`: repeats erasures that a restore of the tables has undone.
"""

import argparse
import asyncio
import http.client
import urllib.error
from typing import Final

import msgspec

from tidings.actions.identity.audit import Intent
from tidings.assembly.system import SystemChance
from tidings.cli.server_access import ask, detail, running_server
from tidings.config import Config
from tidings.data_folder import SERVER_FILE
from tidings.keyrings import EnvironmentKeyring, FileKeyring, read_root_key
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import MasterKeys

ROTATION_SECONDS_MAX: Final = 3_600


class Rotation(msgspec.Struct, frozen=True):
    """Outcome of a rotation."""

    master_key_id: str
    rewrapped: int


def rotate(config: Config, _options: argparse.Namespace) -> int:
    """Rotate the master key, through the running server if one has the data folder open."""
    url = running_server(config.data)
    done = _ask(url, _root_key(config)) if url is not None else None
    if done is None:
        done = asyncio.run(_rotate_here(config))
    print(
        f"The master key is now {done.master_key_id}; {done.rewrapped} keys were rewrapped with it."
    )
    if config.keys.master_key is None:
        print("The previous key was deleted from the folder and opens nothing here any more.")
    else:
        print("TIDINGS_MASTER_KEY_PREVIOUS is no longer needed: remove it.")
    print("Backups made before now still need the master key that was in use then.")
    return 0


def status(config: Config, _options: argparse.Namespace) -> int:
    """Print the master key's id and source, and whether a rotation is unfinished."""
    keyring = _keyring(config)
    source = "TIDINGS_MASTER_KEY" if config.keys.master_key else str(config.data / "master.key")
    if keyring.current is None:
        print(f"There is no master key yet: the first start creates {source}.")
        return 0
    print(f"master key  {keyring.current.key_id}  from {source}")
    for key in keyring.previous:
        print(f"previous    {key.key_id}  still needed: run `tidings keys rotate` to finish")
    if not config.is_alone:
        return 0  # every process has the keys from its settings
    url = running_server(config.data)
    print(f"server      {f'{url} (from {SERVER_FILE})' if url else 'none has this folder open'}")
    return 0


def _keyring(config: Config) -> MasterKeys:
    if config.keys.master_key is not None:
        return EnvironmentKeyring(config.keys.master_key, config.keys.master_key_previous)
    return FileKeyring(config.data, SystemChance())


def _root_key(config: Config) -> str:
    key = config.keys.root_key or read_root_key(config.data)
    if key is None:
        raise SetupError(
            "the running server requires the root key: set TIDINGS_ROOT_KEY to the server's"
        )
    return key


def _ask(url: str, root_key: str) -> Rotation | None:
    """Ask the server to rotate the master key; return None if the server is not running any
    more."""
    where = f"{url.rstrip('/')}/v1/keys/rotate"
    try:
        answer = ask("POST", where, root_key, ROTATION_SECONDS_MAX)
        return msgspec.json.decode(answer, type=Rotation)
    except urllib.error.HTTPError as error:
        raise SetupError(f"the server at {url} declined: {detail(error)}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return None
        raise SetupError(f"the server at {url} does not answer: {error.reason}") from None
    except (http.client.HTTPException, OSError, msgspec.MsgspecError) as error:
        raise SetupError(
            f"the server at {url} broke off ({error}): "
            "`tidings keys status` shows whether the key has changed"
        ) from None


async def _rotate_here(config: Config) -> Rotation:
    from tidings import assembly

    async with assembly.open_for_maintenance(config) as tidings:
        # The audit trail has the same name for this operation on a server.
        async with tidings.audit.act(Intent("cli", None, "rotate_keys", "")):
            rotated = await tidings.rotate_keys()
    return Rotation(rotated.master_key_id, rotated.secrets)


def replay_erasures(config: Config, _options: argparse.Namespace) -> int:
    """Carry out the erasures of the ledger that a restored store does not know."""
    count = asyncio.run(_replay_here(config))
    print(f"{count:,} erasures are carried out again; the jobs continue when the server runs.")
    return 0


async def _replay_here(config: Config) -> int:
    from tidings import assembly

    async with assembly.open_for_maintenance(config) as tidings:
        async with tidings.audit.act(Intent("cli", None, "replay_erasures", "")):
            return await tidings.tenant_work.replay()
