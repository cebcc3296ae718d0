"""`coatcheck serve`: a server over HTTP or stdio, with what production wants as defaults."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import closing
from typing import Annotated, Any

import typer
from mcp.server.mcpserver import MCPServer

from coatcheck.cli.greeting import greet
from coatcheck.cli.http import bind, serve_http
from coatcheck.cli.logs import LogFormat, configure_logs
from coatcheck.cli.processes import Processes
from coatcheck.cli.serving import STORE_HELP, DocketURL, Format, LenientHeaders, Level, Path, Target, check_path
from coatcheck.cli.stdio import serve_stdio
from coatcheck.cli.target import load_server
from coatcheck.cli.tokens import Audience, Issuer, KeySet, Scopes, ask_for_tokens
from coatcheck.errors import InvalidArgument
from coatcheck.server.settings import CONCURRENCY_VARIABLE, DOCKET_VARIABLE, LENIENT_VARIABLE, STORE_VARIABLE
from coatcheck.server.task_server import TaskServer
from coatcheck.server.tasks import tasks_of

DEFAULT_ADDRESS = "127.0.0.1:8000"


Address = Annotated[str | None, typer.Option(help=f"Serve streamable HTTP at host:port. [default: {DEFAULT_ADDRESS}]")]
Stdio = Annotated[bool, typer.Option("--stdio", help="Serve one client over stdin and stdout.")]
StoreURL = Annotated[str | None, typer.Option(help=f"Where tasks are kept, {STORE_HELP}", envvar=STORE_VARIABLE)]
Workers = Annotated[int, typer.Option(min=1, help="Processes that serve and run tasks, on one store.")]
_CONCURRENCY_HELP = (
    "Tasks a process runs at once; 0 leaves them to others on the store. [default: what the server says, else 10000]"
)
Concurrency = Annotated[int | None, typer.Option(min=0, help=_CONCURRENCY_HELP)]


def serve(
    target: Target,
    http: Address = None,
    stdio: Stdio = False,
    store: StoreURL = None,
    workers: Workers = 1,
    concurrency: Concurrency = None,
    docket: DocketURL = None,
    path: Path = "/mcp",
    issuer: Issuer = None,
    audience: Audience = None,
    jwks: KeySet = None,
    scope: Scopes = None,
    lenient_headers: LenientHeaders = False,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = "info",
) -> None:
    """Serve an MCP server's tools, with tasks.

    Examples:

        coatcheck serve app:server

        coatcheck serve app.py:server --http 0.0.0.0:9000 --store sqlite:////var/lib/app/tasks.db --workers 4

        coatcheck serve app:server --stdio

        coatcheck serve app:server --issuer https://login.example.com --audience https://mcp.example.com/mcp
    """
    check_path(path)
    _check_transport(stdio, http, workers)
    asks = ask_for_tokens(issuer, audience, jwks, scope, is_http=not stdio)
    _set_environment(store, concurrency, docket, lenient_headers)
    configure_logs(log_format, log_level)
    server = load_server(target)
    configure_logs(log_format, log_level)  # again: servers set up logs of their own
    _check(server, workers)
    if asks and not isinstance(server, TaskServer):
        raise InvalidArgument(
            f"{target} is no TaskServer, so it takes its authentication in its code only: token_verifier= and auth=; "
            "make it a TaskServer, or leave --issuer out."
        )
    if stdio:
        raise typer.Exit(serve_stdio(server))
    with closing(bind(http or DEFAULT_ADDRESS)) as bound:
        greet(server, bound, path, workers, log_format)
        if workers > 1:
            raise typer.Exit(Processes(_run, target, bound, path, log_format, log_level).serve(workers))
        raise typer.Exit(serve_http(server, bound, path, is_alone=True))


def _check_transport(is_stdio: bool, http: str | None, workers: int) -> None:
    if is_stdio and http:
        raise InvalidArgument("Choose one of --stdio and --http.")
    if is_stdio and workers > 1:
        raise InvalidArgument("There is one process for one client on stdio; leave --workers out.")


def _run(target: str, bound: socket.socket, path: str, form: LogFormat, level: str) -> int:
    server = load_server(target)
    configure_logs(form, level)
    return serve_http(server, bound, path, is_alone=False)


def _set_environment(store: str | None, concurrency: int | None, docket: str | None, is_lenient: bool) -> None:
    """By the environment, so that further processes and servers that name a store in their code get it too."""
    if store:
        os.environ[STORE_VARIABLE] = store
    if concurrency is not None:
        os.environ[CONCURRENCY_VARIABLE] = str(concurrency)
    if docket:
        os.environ[DOCKET_VARIABLE] = docket
    if is_lenient:
        os.environ[LENIENT_VARIABLE] = "1"


def _check(server: MCPServer[Any], workers: int) -> None:
    """Refuse now, in a sentence, what would fail once the server is up."""
    tasks = tasks_of(server)
    if tasks is None:
        return
    if tasks.url(server.name).startswith("memory:") and (workers > 1 or tasks.slots() == 0):
        raise InvalidArgument("Processes cannot share memory://; name a store, as --store sqlite:///tasks.db.")
    asyncio.run(tasks.check(server))
