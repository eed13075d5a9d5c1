# SPDX-License-Identifier: Apache-2.0
"""Access to a running server for the commands that use the Python client."""

from tidings.cli.keys import running_server
from tidings.config import Config
from tidings.keyrings.root import read_root_key
from tidings.model.setup_error import SetupError


def need_client() -> None:
    """Raise SetupError if the client, a separate package, is not installed."""
    try:
        import tidings_client  # noqa: F401
    except ImportError:
        raise SetupError(
            "this needs the Python client: pip install tidings-client\n"
            "(in a clone of the repository: .venv/bin/pip install -e clients/python)"
        ) from None


def server_url(config: Config, given: str | None, flag: str) -> str:
    """Return the given URL, else that of the server that has the data folder open.

    Raises:
        SetupError: There is none; `flag` is the option that names one.
    """
    url = given or running_server(config.data)
    if url is None:
        raise SetupError(
            f"no server has the folder {config.data} open: start one with `make run`, or "
            f"name one with --data or {flag}"
        )
    return url


def known_root_key(config: Config) -> str:
    """Return the root key from the settings, else from the data folder.

    Raises:
        SetupError: There is none.
    """
    key = config.keys.root_key or read_root_key(config.data)
    if key is None:
        raise SetupError(f"there is no root key in {config.data}, and TIDINGS_ROOT_KEY is not set")
    return key
