"""HTTP with what production wants: uvloop, httptools, JSON answers where nothing is streamed, a clean stop."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

import coatcheck
from coatcheck.cli.logs import LogFormat, configure_logs
from coatcheck.cli.target import load_server
from coatcheck.errors import InvalidArgument
from coatcheck.server.http_app import http_app
from coatcheck.server.task_server import STATE_KEY_VARIABLE, TaskServer

logger = logging.getLogger("coatcheck.serve")
_GRACE_SECONDS = 15
_BACKLOG = 2048


class HTTPServer(uvicorn.Server):
    """Uvicorn, which on its way out first ends the streams that would keep it waiting."""

    def __init__(self, config: uvicorn.Config, server: MCPServer[Any]) -> None:
        super().__init__(config)
        self._served = server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if isinstance(self._served, TaskServer):
            self._served.tasks.end_streams()


def serve_http(target: str, address: str, path: str, workers: int, form: LogFormat, level: str) -> int:
    """Serve until told to stop; return the exit code."""
    bound = _bind(address)
    server = load_server(target)
    configure_logs(form, level)
    _greet(server, bound, path, workers)
    if workers == 1:
        return _serve(server, bound, path, workers)
    # What one process hands to a client to bring back, another must be able to read.
    os.environ.setdefault(STATE_KEY_VARIABLE, secrets.token_hex(32))
    spawn = multiprocessing.get_context("spawn")
    children = [
        spawn.Process(target=_serve_child, args=(target, bound, path, workers, form, level, os.getpid()))
        for _ in range(workers)
    ]
    for child in children:
        child.start()

    def stop(sig: int, frame: FrameType | None) -> None:
        for child in children:
            child.terminate()

    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, stop)
    for child in children:
        child.join()
    return max(abs(child.exitcode or 0) for child in children)


def _serve(server: MCPServer[Any], bound: socket.socket, path: str, workers: int) -> int:
    config = uvicorn.Config(
        _application(server, bound, path, workers),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    http = HTTPServer(config, server)
    http.run(sockets=[bound])
    return 0 if http.started else 1


def _serve_child(
    target: str, bound: socket.socket, path: str, workers: int, form: LogFormat, level: str, parent: int
) -> None:
    configure_logs(form, level)
    server = load_server(target)
    configure_logs(form, level)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.exit(_serve(server, bound, path, workers))


def _end_with(parent: int) -> None:
    """Stop when the parent is gone: it may have been killed without a word."""
    waiting = threading.Event()
    while os.getppid() == parent:
        waiting.wait(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def _application(server: MCPServer[Any], bound: socket.socket, path: str, workers: int) -> Starlette:
    return http_app(
        server,
        server.tasks if isinstance(server, TaskServer) else None,
        streamable_http_path=path,
        # A session lives in one process, and the next request may reach another.
        stateless_http=workers > 1,
        host=bound.getsockname()[0],
    )


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InvalidArgument(f"{address!r} is no host:port; write --http 127.0.0.1:8000.")
    host = host.strip("[]") or "127.0.0.1"
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        raise InvalidArgument(f"Cannot listen at {address}: {error.strerror or error}.") from error
    bound.listen(_BACKLOG)  # so that whoever reads where it is can connect
    bound.set_inheritable(True)
    return bound


def _greet(server: MCPServer[Any], bound: socket.socket, path: str, workers: int) -> None:
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    tools = asyncio.run(server.list_tools())
    tasks = server.tasks if isinstance(server, TaskServer) else None
    lines = [
        f"coatcheck {coatcheck.__version__}: {server.name}",
        f"  endpoint  http://{name}:{port}{path}",
        f"  tools     {', '.join(tool.name for tool in tools) or 'none'}",
    ]
    if tasks:
        lines.append(f"  tasks     {', '.join(tasks.describe()) or 'none'}")
        lines.append(f"  store     {tasks.url(server.name)}")
    if workers > 1:
        lines.append(f"  workers   {workers} processes")
    print("\n".join(lines), file=sys.stderr, flush=True)
