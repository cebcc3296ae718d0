"""Uvicorn's HTTP protocol, writing an answer's head and body at once: a system call less for every request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from coatcheck.cli.bounds import BoundedProtocol

_LONG = 65_536


class JoiningProtocol(BoundedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(cast("asyncio.Transport", _JoiningTransport(transport, self.loop)))


class _JoiningTransport:
    """A transport that keeps what is written until the end of the loop's turn, unless it is long."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self._flush)
        self._written.append(data)
        if len(data) > _LONG:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        written, self._written = self._written, []
        if written and not self._transport.is_closing():
            self._transport.write(written[0] if len(written) == 1 else b"".join(written))
