"""Proxies to put load on, each in front of servers that are told by URL or by command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from tests.processes import free_port

from benchmarks import rival
from benchmarks.children import command
from benchmarks.line import Settings
from benchmarks.load.session import Address
from benchmarks.serving import Program

Upstream = Sequence[str]
"""A URL, or a command and its arguments."""


def coatcheck(settings: Settings, upstreams: Mapping[str, Upstream], *options: str) -> Program:
    """On a SQLite file with `synchronous = full`, as it is unless one says otherwise."""
    address = _address()
    config = settings.folder / f"proxy-{address.port}.json"
    config.write_bytes(msgspec.json.encode({"mcpServers": {name: _entry(*each) for name, each in upstreams.items()}}))
    store = f"sqlite:///{settings.folder}/proxy-{address.port}.db"
    told = ("--config", config, "--http", f"{address.host}:{address.port}", "--store", store, *options)
    return Program(command("coatcheck", "proxy", *told), address, settings.folder / "coatcheck-proxy.log")


def fastmcp(settings: Settings, strategy: Literal["shared", "fresh"], upstream: Upstream) -> Program:
    """What the strategies are is said where they are carried out."""
    address = _address()
    told = ("benchmarks/servers/fastmcp_proxy.py", str(address.port), strategy, *upstream)
    return Program([str(rival.python()), *told], address, settings.folder / "fastmcp-proxy.log")


def _entry(first: str, *rest: str) -> Mapping[str, object]:
    return {"command": first, "args": rest} if rest else {"url": first}


def _address() -> Address:
    return Address("127.0.0.1", free_port(), "/mcp")
