"""`coatcheck worker`: runs the tasks of servers that share its store, and serves nobody."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Annotated, Any

import typer
import uvloop
from mcp.server.mcpserver import MCPServer

from coatcheck.cli.greeting import announce
from coatcheck.cli.logs import LogFormat, configure_logs
from coatcheck.cli.processes import Processes
from coatcheck.cli.serving import STORE_HELP, DocketURL, Format, Level, Target
from coatcheck.cli.target import load_server
from coatcheck.errors import InvalidArgument
from coatcheck.server.settings import CONCURRENCY_VARIABLE, DOCKET_VARIABLE, STORE_VARIABLE
from coatcheck.server.tasks import Tasks, tasks_of
from coatcheck.wiring import without_password

logger = logging.getLogger("coatcheck.worker")

StoreURL = Annotated[str | None, typer.Option(help=f"The store of the servers it works for, {STORE_HELP}")]
Concurrency = Annotated[int, typer.Option(min=1, help="Tasks a process runs at once.")]
Count = Annotated[int, typer.Option("--processes", min=1, help="Processes that run tasks.")]


def worker(
    target: Target,
    store: StoreURL = None,
    concurrency: Concurrency = 100,
    processes: Count = 1,
    docket: DocketURL = None,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = "info",
) -> None:
    """Run tasks of a server's tools, on any number of hosts that share its store.

    Tasks of tools, or of versions of tools, that this server does not have are left to workers that do. The servers
    themselves may run none: `coatcheck serve app:server --concurrency 0`.

    Examples:

        coatcheck worker app:server --store postgresql://coatcheck@db.internal/tasks

        coatcheck worker app.py:server --store redis://cache.internal:6379/0 --concurrency 20 --processes 4
    """
    if store:
        os.environ[STORE_VARIABLE] = store
    if docket:
        os.environ[DOCKET_VARIABLE] = docket
    os.environ[CONCURRENCY_VARIABLE] = str(concurrency)
    configure_logs(log_format, log_level)
    server, tasks = _load(target)
    configure_logs(log_format, log_level)  # again: servers set up logs of their own
    asyncio.run(tasks.check(server))
    said = {"tasks": ", ".join(tasks.describe()) or "none", "store": without_password(tasks.url(server.name))}
    crowd = f", {processes} processes" if processes > 1 else ""
    announce(f"a worker for {server.name}", {**said, "at once": f"{concurrency}{crowd}"}, log_format)
    if processes > 1:
        raise typer.Exit(Processes(_run, target, log_format, log_level).serve(processes))
    uvloop.run(_work(server, tasks))


def _run(target: str, form: LogFormat, level: str) -> int:
    server, tasks = _load(target)
    configure_logs(form, level)
    uvloop.run(_work(server, tasks))
    return 0


def _load(target: str) -> tuple[MCPServer[Any], Tasks]:
    server = load_server(target)
    tasks = tasks_of(server)
    if tasks is None:
        raise InvalidArgument(f'{target} has no tasks to run; make it a TaskServer("name") with task= on its tools.')
    if tasks.url(server.name).startswith("memory:"):
        raise InvalidArgument("Processes cannot share memory://; name a store, as --store sqlite:///tasks.db.")
    return server, tasks


async def _work(server: MCPServer[Any], tasks: Tasks) -> None:
    """Work until told to stop; then give running tasks their grace. Ctrl-C once more: end at once.

    SIGTERM is not counted: who stops a whole group tells this process, and so does the one that is told beside it.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def tell(number: signal.Signals) -> None:
        told.set()
        if number is signal.SIGINT:
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, tell, number)
    async with tasks.lifespan(server):
        logger.info("Ready for tasks, as %s", tasks.running.worker.name if tasks.running.worker else server.name)
        await told.wait()
