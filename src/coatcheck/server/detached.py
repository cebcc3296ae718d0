"""A server in the process of one of its detached tasks: opened as for any worker, but without one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from mcp.server.mcpserver import MCPServer

from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument
from coatcheck.runners.detached.letter import Letter
from coatcheck.runners.detached.target import load
from coatcheck.server.settings import CONCURRENCY_VARIABLE, DOCKET_VARIABLE, STORE_VARIABLE
from coatcheck.server.tasks import tasks_of
from coatcheck.tool import Tool


@asynccontextmanager
async def home(letter: Letter) -> AsyncGenerator[tuple[Engine, Iterable[Tool]]]:
    """Open the server of a letter; its task is run by who asks for this."""
    app = load(letter.app)
    server = cast("MCPServer[Any] | None", app if isinstance(app, MCPServer) else None)
    tasks = tasks_of(server) if server else None
    if server is None or tasks is None:
        raise InvalidArgument(f"{letter.app} is no server with tasks.")
    opened = tasks.lifespan(server)
    with _settings({STORE_VARIABLE: letter.store, CONCURRENCY_VARIABLE: "0", DOCKET_VARIABLE: ""}):
        await opened.__aenter__()
    try:
        yield tasks.running.engine, tasks.bodies()
    finally:
        await opened.__aexit__(None, None, None)


@contextmanager
def _settings(here: dict[str, str]) -> Generator[None]:
    """Only while the server is opened: programs that the tool starts are no part of this."""
    before = {name: os.environ.get(name) for name in here}
    os.environ.update(here)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
