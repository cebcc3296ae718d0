"""HTTP with what production wants: uvloop, httptools, JSON answers where nothing is streamed, a clean stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

from coatcheck.cli.protocol import JoiningProtocol
from coatcheck.errors import InvalidArgument
from coatcheck.server.http.app import http_app
from coatcheck.server.tasks import Tasks, tasks_of

_GRACE_SECONDS = 15
_BACKLOG = 2048
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HTTPServer(uvicorn.Server):
    """Uvicorn, which on its way out first ends the streams that would keep it waiting, and then ends as asked: well."""

    def __init__(self, config: uvicorn.Config, tasks: Tasks | None) -> None:
        super().__init__(config)
        self._tasks = tasks

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._tasks:
            self._tasks.end_streams()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        before = {sig: signal.signal(sig, self.handle_exit) for sig in _SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def serve_http(server: MCPServer[Any], bound: socket.socket, path: str, *, is_alone: bool) -> int:
    """Serve until told to stop; return the exit code. `is_alone`: no other process serves the same address."""
    tasks = tasks_of(server)
    app = http_app(
        server,
        tasks,
        streamable_http_path=path,
        # A session lives in one process, and the next request may reach another.
        stateless_http=not is_alone,
        host=bound.getsockname()[0],
    )
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=JoiningProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here asks who the peer is
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    http = HTTPServer(config, tasks)
    http.run(sockets=[bound])
    return 0 if http.started else 1


def bind(address: str) -> socket.socket:
    """Return a socket that listens at `host:port`; port 0 takes any that is free.

    Raises:
        InvalidArgument: That is no address, or not one to be had.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InvalidArgument(f"{address!r} is no host:port; write --http 127.0.0.1:8000.")
    host = host.strip("[]") or "127.0.0.1"
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, int(port)))
        bound.listen(_BACKLOG)  # so that whoever reads where it is can connect
    except OSError as error:
        bound.close()
        raise InvalidArgument(f"Cannot listen at {address}: {error.strerror or error}.") from error
    bound.set_inheritable(True)
    return bound
