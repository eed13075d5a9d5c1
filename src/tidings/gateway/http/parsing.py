# SPDX-License-Identifier: Apache-2.0
"""Parsing the requests of one connection: piece by piece, and no further while one waits."""

import asyncio
from abc import abstractmethod
from typing import Final

import httptools
import uvicorn

from tidings.gateway.http import refusals
from tidings.gateway.http.framing import RequestFraming
from tidings.gateway.http.head import ReadGate
from tidings.gateway.http.uvicorn_internals import HttpToolsProtocol, ServerState
from tidings.model import limits

REQUEST_SECONDS_MAX: Final = limits.REQUEST_MS_MAX / limits.SECOND_MS


class RequestRefused(Exception):
    """Ends the parsing; the protocol knows the answer already."""


class ParsingProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds on what a client can make it keep."""

    flow: ReadGate

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config, state, {})
        self._framing = RequestFraming()
        self._data = b""
        """What was read and is not parsed yet, from `_at` on."""
        self._at = 0
        self._deadline: asyncio.TimerHandle | None = None
        """Runs from the first byte of a request, or of whatever it is, to the request's end."""
        self._wants_socket = False
        self._is_last = False
        """Whether no request may follow the one that is being parsed."""
        self._is_over = False
        """Whether all further bytes are ignored."""
        self._refusal = b""
        """The answer to what broke a rule, until it is written."""

    @abstractmethod
    def _is_busy_again(self) -> None:
        """Something came."""

    @abstractmethod
    def _refuse(self, refusal: bytes) -> None:
        """Answer what broke a rule."""

    @abstractmethod
    def _become_socket(self) -> None:
        """The request that has just ended asks for a socket."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._is_over:
            return
        self._is_busy_again()
        self._start_clock()
        self._data = self._data[self._at :] + data if self._data else data
        self._at = 0
        self._parse()

    def _parse(self) -> None:
        """Go on until a request waits, the body is ahead of its reader, or nothing is left."""
        while self._at < len(self._data) and not self._is_over and not self.flow.read_paused:
            size = self._framing.piece_size(self._data, self._at)
            self._feed(memoryview(self._data)[self._at : self._at + size])
        if self._at >= len(self._data) or self._is_over:
            self._data, self._at = b"", 0

    def _feed(self, piece: memoryview) -> None:
        framing, was_in_chunks = self._framing, self._framing.is_in_chunks
        self._at += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            (end_of_request,) = upgrade.args
            self._at -= len(piece) - end_of_request
            if self._wants_socket:
                self._become_socket()
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or refusals.NOT_HTTP)
            return
        framing.fed(len(piece), was_in_chunks=was_in_chunks)
        if framing.is_head_too_large:
            self._refuse(refusals.HEAD_TOO_LARGE)
        elif framing.are_trailers_too_large:
            self._refuse(refusals.TRAILERS_TOO_LARGE)

    def _read_on(self) -> None:
        """Parse what is left, then read more, unless a request waits for the answer to another."""
        if not self.flow.read_paused or self.pipeline or self.transport.is_closing():
            return
        self.flow.read_paused = False
        self._parse()
        if not self.flow.read_paused:
            self.flow.reopen()

    # What the parser says.

    def on_message_begin(self) -> None:
        if self._is_last:
            raise RequestRefused
        self._start_clock()
        self._framing.begin()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come here as well. They are not headers: whoever wrote them was not looked at.
        if not self._framing.is_in_body:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Called by the parser, unlike everything else not by uvicorn's protocol."""
        self._framing.chunk()

    def on_body(self, body: bytes) -> None:
        self._framing.body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_clock()
        self._framing.end()
        super().on_message_complete()

    # The time a request may take.

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._time_is_up)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_is_up(self) -> None:
        self._deadline = None
        if self.flow.read_paused:
            self._start_clock()  # it is us who do not read
        else:
            self.transport.close()
