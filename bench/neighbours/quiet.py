# SPDX-License-Identifier: Apache-2.0
"""The quiet neighbours: users of another tenant, whose answers an attack should not delay.

They run in a separate process, so that the attack does not distort their measurements. Each of them
sends one message and requests one chat list per second, and keeps a socket open. For each line on
standard input, the process writes what it has measured since the previous line.
"""

import http.client
import sys
import threading
from argparse import ArgumentParser
from time import monotonic, perf_counter, sleep
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.neighbours.seen import Seen
from bench.plain_socket import PlainSocket
from bench.server import pin_load

TENANT: Final = "quiet"
TICK_SECONDS: Final = 1.0
ANSWER_SECONDS_MAX: Final = 60.0


class Neighbour(threading.Thread):
    """One user of the quiet tenant."""

    def __init__(self, url: str, root_key: str, number: int) -> None:
        super().__init__(daemon=True)
        self.seen = Seen()
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._rest = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=ANSWER_SECONDS_MAX
        )
        token = {"user_id": f"q{number}"}
        self._call("PUT", f"/v1/tenants/{TENANT}", root_key, {})
        self._call("POST", f"/v1/tenants/{TENANT}/tokens", root_key, {"user_id": f"friend{number}"})
        made = self._call("POST", f"/v1/tenants/{TENANT}/tokens", root_key, token)
        self._token = str(made["token"])
        wish = {"type": "direct", "members": [f"friend{number}"]}
        self._chat = str(self._call("POST", "/v1/chats", self._token, wish)["chat_id"])
        self._socket = PlainSocket(url, self._token)
        self._sent = 0

    def run(self) -> None:
        due = monotonic()
        while self._message() and self._list():
            due += TICK_SECONDS
            sleep(max(0.0, due - monotonic()))

    def _message(self) -> bool:
        """Send a message; return False if the socket is closed, which ends this neighbour."""
        self._sent += 1
        frame = {
            "op": "send",
            "id": f"{self._sent}",
            "chat": self._chat,
            "client_message_id": f"m{self._sent}",
            "content": "good morning",
        }
        began = perf_counter()
        try:
            self._socket.send(msgspec.json.encode(frame))
            self._socket.receive("sent")
        except (OSError, SystemExit) as error:
            self.seen.closed += 1
            self.seen.unanswered.append(f"message: {error}")
            return False
        self.seen.messages_ms.append((perf_counter() - began) * 1e3)
        return True

    def _list(self) -> bool:
        began = perf_counter()
        try:
            self._call("GET", "/v1/chats?limit=50", self._token)
            self.seen.lists_ms.append((perf_counter() - began) * 1e3)
        except (OSError, http.client.HTTPException) as error:
            self._rest.close()
            self.seen.unanswered.append(f"chat list: {error}")
        return True

    def _call(self, method: str, path: str, key: str, body: object = None) -> dict[str, object]:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._rest.request(method, path, content, headers)
        answer = self._rest.getresponse()
        told = answer.read()
        if answer.status >= 300:
            raise http.client.HTTPException(f"{answer.status} {told[:200].decode()}")
        decoded: dict[str, object] = msgspec.json.decode(told) if told else {}
        return decoded


def main() -> None:
    """Run the neighbours until standard input ends."""
    parser = ArgumentParser(prog="bench.neighbours.quiet", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("root_key")
    parser.add_argument("neighbours", type=int)
    options = parser.parse_args()
    pin_load()
    everyone = [
        Neighbour(options.url, options.root_key, number) for number in range(options.neighbours)
    ]
    for neighbour in everyone:
        neighbour.start()
        sleep(TICK_SECONDS / len(everyone))  # not all in the same moment
    for _ in sys.stdin:
        together = Seen()
        for neighbour in everyone:
            seen, neighbour.seen = neighbour.seen, Seen()
            together.add(seen)
        sys.stdout.write(msgspec.json.encode(together).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
