# SPDX-License-Identifier: Apache-2.0
"""`tidings listen`: shows the events of a tenant live, and forwards them to a program under
development, which no server can reach."""

import argparse
import http.client
import os
import secrets
import signal
import sys
import urllib.error
import urllib.request
from base64 import b64decode
from itertools import takewhile
from time import monotonic, sleep, time
from typing import Final
from urllib.parse import quote

import msgspec

from tidings.cli.environment import TENANT_KEY
from tidings.cli.server_access import (
    NoRedirects,
    NotNow,
    Row,
    add_server_option,
    known_root_key,
    print_row,
    request,
    server_url,
)
from tidings.config import Config
from tidings.model.setup_error import SetupError
from tidings.model.webhooks import EVENT_TYPES
from tidings.wire.events import webhook_headers

PAUSE_SECONDS: Final = 1.0
ANSWER_SECONDS_MAX: Final = 15.0
"""Time to answer, which is also the time that a webhook endpoint has."""
_SHOWN: Final = ("chat_id", "sequence", "sender_id", "user_id", "inbox", "notification_id")
"""Fields of an event that are printed: never content."""


def add_listen_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings listen`."""
    parser.add_argument("--tenant", required=True, metavar="TENANT", help="whose events")
    parser.add_argument(
        "--forward", metavar="URL", help="post each event to this address, signed like a webhook"
    )
    parser.add_argument(
        "--events", metavar="TYPES", help="types of events, separated by commas (all)"
    )
    parser.add_argument("--json", action="store_true", help="print whole events, with content")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="end after this time (when you press Ctrl-C)"
    )
    add_server_option(parser)


def listen(config: Config, options: argparse.Namespace) -> int:
    """Show and forward events until the user ends it; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    if options.forward and not options.forward.startswith(("http://", "https://")):
        raise SetupError("--forward: must be an address such as http://127.0.0.1:3000/hook")
    url = server_url(config, options.server, "--server").rstrip("/")
    key = os.environ.get(TENANT_KEY) or known_root_key(config)
    name = f"listen-{secrets.token_hex(4)}"
    place = f"{url}/v1/tenants/{quote(options.tenant, safe='')}/webhooks/{name}"
    wanted = options.events.split(",") if options.events else list(EVENT_TYPES)
    made: Row = msgspec.json.decode(request("PUT", place, key, {"url": None, "events": wanted}))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as with Ctrl-C
    try:
        print(f"Listening. The events are signed with {made['secret']}", flush=True)
        _Listener(name, place, key, made["secret"], options).run()
    except KeyboardInterrupt:
        pass
    finally:
        request("DELETE", place, key)
    return 0


class _Listener:
    """Pulls the events of one endpoint, and confirms each when it was shown and forwarded."""

    def __init__(
        self, name: str, place: str, key: str, secret: str, options: argparse.Namespace
    ) -> None:
        self._name, self._place, self._key = name, place, key
        self._secret = b64decode(secret.removeprefix("whsec_"))
        self._options = options
        self._is_away = False
        """Whether the server did not answer the last request for events."""

    def run(self) -> None:
        """Show and forward events until the time is over."""
        seconds = self._options.seconds
        ends, done = None if seconds is None else monotonic() + seconds, list[str]()
        while True:
            events = self._pulled(done)
            # After a failure nothing more is forwarded, because events of a chat are in order.
            done = [event["delivery_id"] for event in takewhile(self._is_done, events)]
            if ends is not None and monotonic() >= ends:
                return
            if len(done) < len(events) or not events:
                sleep(PAUSE_SECONDS)

    def _pulled(self, done: list[str]) -> list[Row]:
        """Confirm events and return the next ones; none while the server does not answer.

        The server returns again what was not confirmed.
        """
        try:
            answer = request("POST", f"{self._place}/pull", self._key, {"done": done})
        except NotNow as error:
            if not self._is_away:
                print(f"{error}; trying again", file=sys.stderr, flush=True)
            self._is_away = True
            return []
        self._is_away = False
        events: list[Row] = msgspec.json.decode(answer)["data"]
        return events

    def _is_done(self, event: Row) -> bool:
        """Show an event and forward it; return False if it has to be forwarded again."""
        if self._options.json:
            print(msgspec.json.encode(event).decode(), flush=True)
        else:
            shown = [f"{name}={event['data'][name]}" for name in _SHOWN if name in event["data"]]
            print_row(event["timestamp"], event["type"], *shown)
        if self._options.forward is None:
            return True
        status = self._forwarded(event)
        print_row("  ", self._options.forward, str(status))
        return isinstance(status, int) and status < 500

    def _forwarded(self, event: Row) -> int | str:
        """Post an event to the address; return the status of the answer, or why there is none."""
        delivery_id = event["delivery_id"].removeprefix("~")
        body = msgspec.json.encode({name: event[name] for name in ("type", "timestamp", "data")})
        headers = webhook_headers([self._secret], f"{self._name}.{delivery_id}", int(time()), body)
        return _status(self._options.forward, headers, body)


def _status(url: str, headers: dict[str, str], body: bytes) -> int | str:
    asked = urllib.request.Request(url, body, headers, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)
    try:
        with opener.open(asked, timeout=ANSWER_SECONDS_MAX) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (http.client.HTTPException, OSError) as error:
        return str(getattr(error, "reason", error))
