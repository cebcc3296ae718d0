"""A server's tasks in processes that outlive it: how such a process finds the server, and opens it for one task."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from mcp.server.mcpserver import MCPServer

from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument
from coatcheck.runners.detached.letter import Letter
from coatcheck.runners.detached.target import find, load
from coatcheck.runners.detached.work import Launcher
from coatcheck.server.settings import CONCURRENCY_VARIABLE, STORE_VARIABLE
from coatcheck.server.tasks import tasks_of
from coatcheck.tool import Tool

APP_VARIABLE = "COATCHECK_APP"
_HOME = f"{__name__}:home"


def launcher_for(server: MCPServer[Any], store: str, **options: Any) -> Launcher:
    """Return what starts processes for the tasks of a server, kept at `store`.

    Raises:
        InvalidArgument: The store cannot be shared, or another process could not find the server.
    """
    app = os.environ.get(APP_VARIABLE) or find(server)
    if app is None:
        raise InvalidArgument(
            f"Detached tasks of {server.name!r} need a server that another process can import: give it a name at the "
            f"top level of a module, or say where one is with {APP_VARIABLE}=module:server."
        )
    return Launcher(store=store, home=_HOME, app=app, **options)


@asynccontextmanager
async def home(letter: Letter) -> AsyncGenerator[tuple[Engine, Iterable[Tool]]]:
    """Open the server of a letter as for any worker, but without one: the task is run by who asks for this."""
    app = load(letter.app)
    server = cast("MCPServer[Any] | None", app if isinstance(app, MCPServer) else None)
    tasks = tasks_of(server) if server else None
    if server is None or tasks is None:
        raise InvalidArgument(f"{letter.app} is no server with tasks.")
    opened = tasks.lifespan(server)
    with _settings(letter.store):
        await opened.__aenter__()
    try:
        yield tasks.running.engine, tasks._parts.toolbox.all()  # pyright: ignore[reportPrivateUsage]
    finally:
        await opened.__aexit__(None, None, None)


@contextmanager
def _settings(store: str) -> Generator[None]:
    """Only while the server is opened: programs that the tool starts are no part of this."""
    before = {name: os.environ.get(name) for name in (STORE_VARIABLE, CONCURRENCY_VARIABLE)}
    os.environ.update({STORE_VARIABLE: store, CONCURRENCY_VARIABLE: "0"})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
