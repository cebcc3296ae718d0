"""`coatcheck serve`: a server over HTTP or stdio, with what production wants as defaults."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import anyio
import typer
import uvloop

from coatcheck.cli.http import serve_http
from coatcheck.cli.logs import LogFormat, configure_logs
from coatcheck.cli.target import load_server
from coatcheck.errors import InvalidArgument
from coatcheck.server.runtime import CONCURRENCY_VARIABLE, LENIENT_VARIABLE, STORE_VARIABLE

DEFAULT_ADDRESS = "127.0.0.1:8000"


def serve(
    target: Annotated[str, typer.Argument(help="The server: `module:server`, or `path/to/file.py:server`.")],
    http: Annotated[
        str | None, typer.Option(help=f"Serve streamable HTTP at `host:port` (this is the default, {DEFAULT_ADDRESS}).")
    ] = None,
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve one client over stdin and stdout.")] = False,
    store: Annotated[
        str | None,
        typer.Option(help="Where tasks are kept, as `sqlite:///tasks.db` or `memory://`.", envvar=STORE_VARIABLE),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve and run tasks, on one store.")] = 1,
    concurrency: Annotated[
        int | None, typer.Option(min=0, help="Tasks a process runs at once; 0 leaves them to others on the store.")
    ] = None,
    path: Annotated[str, typer.Option(help="Path of the HTTP endpoint.")] = "/mcp",
    lenient_headers: Annotated[
        bool,
        typer.Option("--lenient-headers", help="Serve clients that leave out the Mcp-Name header, as FastMCP 4 does."),
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How to log, on stderr.")] = LogFormat.TEXT,
    log_level: Annotated[str, typer.Option(help="From which level on.")] = "info",
) -> None:
    """Serve an MCP server's tools, with tasks.

    Examples:

        coatcheck serve app:server

        coatcheck serve app.py:server --http 0.0.0.0:9000 --store sqlite:///var/tasks.db --workers 4

        coatcheck serve app:server --stdio
    """
    if stdio and http:
        raise InvalidArgument("Choose one of --stdio and --http.")
    if stdio and workers > 1:
        raise InvalidArgument("There is one process for one client on stdio; leave --workers out.")
    # By the environment, so that further processes and servers that name a store in their code get it too.
    if store:
        os.environ[STORE_VARIABLE] = store
    if concurrency is not None:
        os.environ[CONCURRENCY_VARIABLE] = str(concurrency)
    if lenient_headers:
        os.environ[LENIENT_VARIABLE] = "1"
    configure_logs(log_format, log_level)
    if stdio:
        server = load_server(target)
        anyio.run(server.run_stdio_async, backend_options={"loop_factory": uvloop.new_event_loop})
    else:
        sys.exit(serve_http(target, http or DEFAULT_ADDRESS, path, workers, log_format, log_level))
