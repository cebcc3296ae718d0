"""The proxy in front of servers that others wrote, or wrote the libraries of."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance.serving import running
from tests.interop_servers.servers import Target, command, over_http

PROMOTE_AFTER = 1.6
"""Seconds after which a call is slow. On a busy machine a quick one takes a part of it."""
SLOW = 2 * PROMOTE_AFTER


@contextmanager
def over_the_wire(folder: Path) -> Generator[Sequence[str]]:
    """Give the URL of a proxy that speaks HTTP, in front of servers that do so where they can."""
    with over_http("fastmcp") as (fastmcp, _), over_http("plain_v1") as (plain, _):
        config = _write(folder, {**_processes(folder), "fastmcp": fastmcp, "plain": plain})
        with running("coatcheck", *_proxy(config, folder), "--http", "127.0.0.1:0") as url:
            yield [url]


def by_command(folder: Path) -> Sequence[str]:
    """Give the command of a proxy that speaks stdio, in front of servers that do so."""
    servers = {**_processes(folder), "fastmcp": command("fastmcp", "stdio"), "plain": command("plain_v1", "stdio")}
    own = Path(tempfile.mkdtemp(dir=folder))  # so that no proxy finds what another left
    return [sys.executable, "-m", "coatcheck", *_proxy(_write(own, servers), own)]


@contextmanager
def unprefixed(server: Sequence[str], folder: Path) -> Generator[Sequence[str]]:
    """Give the URL of a proxy in front of the one server of a command, whose names it keeps."""
    config = _write(folder, {"only": server})
    with running("coatcheck", *_proxy(config, folder), "--no-prefix", "--http", "127.0.0.1:0") as url:
        yield [url]


def recorded(server: Sequence[str], record: Path) -> Sequence[str]:
    """Return the command of a server of which is written down what it is told."""
    return ["sh", "-c", f"tee {shlex.quote(str(record))} | {shlex.join(server)}"]


def _processes(folder: Path) -> Mapping[str, Target]:
    return {
        "everything": command("everything", "stdio"),
        "files": [*command("filesystem", "stdio"), str(folder)],
        "tasks": command("sdk_v1", "stdio"),
    }


def _proxy(config: Path, folder: Path) -> Sequence[str]:
    options = ("--promote-after", str(PROMOTE_AFTER), "--store", f"sqlite:///{folder}/proxy.db")
    return ["proxy", "--config", str(config), *options]


def _write(folder: Path, servers: Mapping[str, Target]) -> Path:
    config = folder / "mcp.json"
    config.write_bytes(msgspec.json.encode({"mcpServers": {name: _entry(each) for name, each in servers.items()}}))
    return config


def _entry(target: Target) -> Mapping[str, Any]:
    return {"url": target} if isinstance(target, str) else {"command": target[0], "args": target[1:]}
