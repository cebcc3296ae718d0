"""`coatcheck proxy`: one server in front of any number of others, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
import os
import secrets
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from coatcheck.cli.greeting import greet
from coatcheck.cli.http import bind, serve_http
from coatcheck.cli.logs import LogFormat, configure_logs
from coatcheck.cli.serving import Format, LenientHeaders, Level, check_path
from coatcheck.cli.serving import Path as EndpointPath
from coatcheck.cli.stdio import serve_stdio
from coatcheck.cli.tokens import Audience, Issuer, KeySet, Scopes, ask_for_tokens
from coatcheck.errors import InvalidArgument
from coatcheck.proxy.config import Config, read_config
from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from coatcheck.server.access.principal import ROLES
from coatcheck.server.access.settings import Access
from coatcheck.server.settings import LENIENT_VARIABLE, STORE_VARIABLE, default_store
from coatcheck.server.task_server import STATE_KEY_VARIABLE

CONFIG_VARIABLE = "COATCHECK_PROXY_CONFIG"
ROLES_VARIABLE = "COATCHECK_ROLES_CLAIM"

ConfigFile = Annotated[
    Path,
    typer.Option("--config", "-c", help="The servers: a file with `mcpServers` in it.", envvar=CONFIG_VARIABLE),
]
Address = Annotated[str | None, typer.Option(help="Serve streamable HTTP at host:port, and not stdio.")]
Tools = Annotated[
    bool,
    typer.Option("--tools", help="Show the meta tools (execute_tool, await_activity, …) in place of the servers' own."),
]
NoPrefix = Annotated[
    bool, typer.Option("--no-prefix", help="Leave names as they are; for a file with one server in it.")
]
PromoteAfter = Annotated[
    float, typer.Option(min=0.001, help="Seconds after which a call that has not ended becomes a task.")
]
StoreURL = Annotated[
    str | None,
    typer.Option(
        help="Where tasks are kept, as `sqlite:///tasks.db`. [default: a file in the user's state folder]",
        envvar=STORE_VARIABLE,
    ),
]
Shared = Annotated[
    bool,
    typer.Option(
        "--shared", help="Callers without a name are not one person: keep from each what is not known to be theirs."
    ),
]
Roles = Annotated[
    str,
    typer.Option(
        "--roles-claim",
        help="The claim of a token with its caller's roles, as `realm_access.roles`.",
        envvar=ROLES_VARIABLE,
        rich_help_panel="Who may come in",
    ),
]


def proxy(
    config: ConfigFile = Path("mcp.json"),
    http: Address = None,
    tools: Tools = False,
    no_prefix: NoPrefix = False,
    promote_after: PromoteAfter = 10.0,
    store: StoreURL = None,
    path: EndpointPath = "/mcp",
    shared: Shared = False,
    issuer: Issuer = None,
    audience: Audience = None,
    jwks: KeySet = None,
    scope: Scopes = None,
    roles_claim: Roles = ROLES,
    lenient_headers: LenientHeaders = False,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = "warning",
) -> None:
    """Give tasks to any MCP servers: stand between them and their clients.

    A call that takes longer than a few seconds becomes a task, or a ticket for clients that know no tasks, and its
    result waits for whoever asks for it.

    Examples:

        coatcheck proxy --config mcp.json

        coatcheck proxy --config mcp.json --http 127.0.0.1:8000

        coatcheck proxy --config mcp.json --tools

        coatcheck proxy --http 0.0.0.0:8000 --issuer https://login.example.com --audience https://mcp.example.com/mcp
    """
    check_path(path)
    configure_logs(log_format, log_level)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it shows whole URLs, secrets and all
    asks = ask_for_tokens(issuer, audience, jwks, scope, is_http=http is not None)
    found = _read(config, no_prefix=no_prefix, knows_callers=asks)
    _set_environment(config, store, lenient_headers)
    settings = ProxySettings(
        promote_after=promote_after,
        prefixes=not no_prefix,
        has_meta_tools=tools,
        is_for_one=not shared and not asks and (http is None or _is_loopback(http)),
    )
    access = Access(roles=roles_claim)
    server = Gateway(found.servers, store=store or _store(config), settings=settings, terms=found.terms, access=access)
    raise typer.Exit(_serve(server, http, path, log_format, servers=", ".join(found.servers) or "none"))


def _serve(server: Gateway, http: str | None, path: str, log_format: LogFormat, *, servers: str) -> int:
    """Serve until told to stop; return the exit code."""
    asyncio.run(server.tasks.check(server))
    if http is None:
        return serve_stdio(server)
    with closing(bind(http)) as bound:
        greet(server, bound, path, 1, log_format, servers=servers)
        return serve_http(server, bound, path, is_alone=True)


def _set_environment(config: Path, store: str | None, is_lenient: bool) -> None:
    os.environ.setdefault(STATE_KEY_VARIABLE, _state_key(config))
    if store:
        os.environ[STORE_VARIABLE] = store
    if is_lenient:
        os.environ[LENIENT_VARIABLE] = "1"


def _read(path: Path, *, no_prefix: bool, knows_callers: bool) -> Config:
    found = read_config(path)
    for problem in found.problems:
        print(problem, file=sys.stderr, flush=True)
    if found.problems and not found.servers:
        raise InvalidArgument(f"None of the servers in {path} can be used.")
    if no_prefix and len(found.servers) != 1:
        raise InvalidArgument(f"--no-prefix is for one server, but {path} has {len(found.servers)}.")
    if found.needs_names and not knows_callers:
        raise InvalidArgument(
            f"{path} keeps something for callers with roles or scopes, which they show by a token; "
            "serve it with --http, --issuer and --audience, or take that out."
        )
    return found


def _store(config: Path) -> str:
    """Return where a proxy keeps its tasks if nobody says: found again by the same file."""
    told = hashlib.sha256(str(config.absolute()).encode()).hexdigest()[:8]
    return default_store(f"proxy-{config.stem.lstrip('.')}-{told}")


def _state_key(config: Path) -> str:
    """Return what seals the rounds of calls: the same after a restart, or clients could not go on with theirs."""
    path = Path(_store(config).removeprefix("sqlite:///")).with_suffix(".key")
    if not path.exists():
        descriptor, new = tempfile.mkstemp(dir=path.parent)  # for nobody else to read
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was faster, with all of it
            os.link(new, path)
        os.unlink(new)
    return path.read_text()


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]") or "127.0.0.1"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
