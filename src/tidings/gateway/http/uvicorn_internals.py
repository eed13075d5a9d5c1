# SPDX-License-Identifier: Apache-2.0
"""Imports the internals of uvicorn that we use. No other module imports them from uvicorn.

`ParsingProtocol` and `HttpProtocol` override methods of `HttpToolsProtocol` and read and write its
attributes; `ReadGate` overrides `FlowControl`. A new release of uvicorn may change any of these.
Therefore its version is capped in `pyproject.toml`, and a unit test compares the source of every
function that we depend on with the source that we have read.
"""

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = ["FlowControl", "HttpToolsProtocol", "RequestResponseCycle", "ServerState"]
