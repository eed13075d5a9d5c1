# SPDX-License-Identifier: Apache-2.0
"""Arguments of handlers, chosen by the names of their parameters:

- a parameter of the path: its text;
- `asked`: the query;
- `caller`, `user`, `address`: the caller, its user, and the client's address;
- `chat`, `place`, `limit_in_path`: a chat id, sequence or limit in the path, parsed;
- `request_key`: the header `Idempotency-Key`;
- `data`: the body, which the endpoint reads before all of these;
- any other name: a service that the application was made with, for example `verbs`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request

from tidings.actions.identity.caller import require_user
from tidings.api import fields
from tidings.api.operations import Operation
from tidings.api.requests import read_query

Source = Callable[[Request], object]
"""Reads the value of one argument from a request."""

_SOURCES: Final[Mapping[str, Source]] = {
    "caller": lambda request: request.user,
    "user": lambda request: require_user(request.user).user,
    "chat": lambda request: fields.chat(request.path_params["chat_id"]),
    "place": lambda request: fields.sequence_in_path(request.path_params["sequence"]),
    "limit_in_path": lambda request: fields.limit_in_path(request.path_params["limit"]),
    "request_key": lambda request: request.headers.get("Idempotency-Key"),
}


class Arguments:
    """Reader of the arguments of one operation's handler, apart from the body."""

    def __init__(
        self, operation: Operation, services: Mapping[str, object], address: Source
    ) -> None:
        """Find the source of each parameter once.

        Args:
            operation: The operation of the handler.
            services: The services of the application, by name.
            address: Returns the address that rate limits count for a client.

        Raises:
            TypeError: A parameter has a name without a source.
        """
        sources = {**_SOURCES, "address": address}
        for name in operation.path_parameters:
            sources[name] = _from_path(name)
        if operation.query is not None:
            sources["asked"] = _from_query(operation)
        self._fixed: dict[str, object] = {}
        self._sources: dict[str, Source] = {}
        for name in inspect.signature(operation.handler).parameters:
            if name in services:
                self._fixed[name] = services[name]
            elif name in sources:
                self._sources[name] = sources[name]
            elif name != "data":
                raise TypeError(f"{operation.name}: nothing is called {name}")

    def read(self, request: Request) -> dict[str, object]:
        """Return the arguments for a request.

        Raises:
            Refusal: A parameter of the path or the query is not valid.
        """
        read = {name: source(request) for name, source in self._sources.items()}
        return {**self._fixed, **read}


def _from_path(name: str) -> Source:
    return lambda request: request.path_params[name]


def _from_query(operation: Operation) -> Source:
    query = operation.query
    assert query is not None
    return lambda request: read_query(request.scope["query_string"], query)
