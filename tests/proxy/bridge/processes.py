"""The processes of the bridge: servers, and proxies in front of them, each at a place where it is found again."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.cli.serving import ROOT, environment
from tests.client_faults.gate import PATIENCE
from tests.client_faults.processes import Child
from tests.forked import call_coatcheck
from tests.processes import free_port
from tests.proxy.bridge.programs.upstreams import Kind, serve

HASTY, PATIENT = 0.1, 60.0
"""Seconds after which a proxy makes a task of a call: at once, more or less, or never."""
_TRIES_PER_SECOND = 50


class Server:
    """A process that serves at a port of its own, and can be killed and started again there."""

    def __init__(self, folder: Path, name: str, serve: Callable[..., None], *arguments: Any) -> None:
        """`serve` is called with the arguments and the port."""
        self.name, self.port = name, free_port()
        self._said, self._serve, self._arguments = folder / f"{name}.txt", serve, arguments
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def is_there(self) -> bool:
        return self._child is not None and self._child.is_alive

    def start(self) -> None:
        """Start it and wait until somebody listens at its port."""
        self._child = child = Child(_serve, str(self._said), self._serve, *self._arguments, self.port)
        for _ in range(PATIENCE * _TRIES_PER_SECOND):
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), PATIENCE):
                return
            if child.ends_within(1 / _TRIES_PER_SECOND):
                break
        raise AssertionError(f"Nobody listens at port {self.port}; {self.name} said {self.words()}")

    def kill(self) -> None:
        assert self._child
        self._child.end()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def words(self) -> str:
        """Return what it said so far."""
        return self._said.read_text() if self._said.exists() else ""


def upstream(folder: Path, kind: Kind, name: str | None = None) -> Server:
    name = name or kind
    return Server(folder, name, serve, kind, f"sqlite:///{folder}/{name}.db")


def proxy(folder: Path, entries: Mapping[str, Any], promote_after: float = HASTY) -> Server:
    """A proxy over HTTP. What it keeps is kept in the folder."""
    return Server(folder, "proxy", _serve_proxy, proxy_command(folder, entries, promote_after), folder)


def proxy_entry(folder: Path, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a host starts a proxy over stdio, with the same store each time."""
    command = ["-m", "coatcheck", *proxy_command(folder, entries)]
    return {"command": sys.executable, "args": command, "env": environment(folder), "cwd": str(ROOT)}


def proxy_command(folder: Path, entries: Mapping[str, Any], promote_after: float = HASTY) -> list[str]:
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": dict(entries)}))
    store = f"sqlite:///{folder}/proxy.db"
    return ["proxy", "--config", str(config), "--store", store, "--promote-after", str(promote_after)]


def _serve_proxy(command: list[str], folder: Path, port: int) -> None:
    call_coatcheck([*command, "--http", f"127.0.0.1:{port}"], ROOT, environment(folder))


def _serve(said: str, serve: Callable[..., None], *arguments: Any) -> None:
    descriptor = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    serve(*arguments)
