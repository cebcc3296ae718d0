"""What a server says of itself when it starts: lines for people, one record for machines."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver import MCPServer

import coatcheck
from coatcheck.cli.logs import LogFormat
from coatcheck.server.tasks import tasks_of
from coatcheck.wiring import without_password

logger = logging.getLogger("coatcheck.serve")


def greet(
    server: MCPServer[Any],
    bound: socket.socket,
    path: str,
    workers: int,
    form: LogFormat,
    *,
    servers: str | None = None,
) -> None:
    """Tell where the server is, what it offers and where its tasks are kept. `servers`: those behind it."""
    host, port = bound.getsockname()[:2]
    tools = [tool.name for tool in asyncio.run(server.list_tools())]
    said = {"endpoint": f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"}
    said |= {"servers": servers} if servers is not None else {"tools": ", ".join(tools) or "none"}
    if tasks := tasks_of(server):
        described = {} if servers is not None else {"tasks": ", ".join(tasks.describe()) or "none"}
        said |= {**described, "store": without_password(tasks.url(server.name))}
    if auth := server.settings.auth:
        said["tokens"] = f"of {auth.issuer_url}"
    if workers > 1:
        said["workers"] = f"{workers} processes"
    announce(server.name, said, form)


def announce(what: str, said: Mapping[str, str], form: LogFormat) -> None:
    title = f"coatcheck {coatcheck.__version__}: {what}"
    if form is LogFormat.JSON:
        logger.info(title, extra={"fields": dict(said)})
    else:
        lines = (f"  {name:9} {value}" for name, value in said.items())
        print("\n".join((title, *lines)), file=sys.stderr, flush=True)
