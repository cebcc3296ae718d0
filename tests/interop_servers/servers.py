"""The servers that others wrote, or wrote the libraries of: what starts them, over which transport."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.conformance.node import NODE, packages
from tests.databases.redis import Redis
from tests.interop import fastmcp_venv, venvs
from tests.interop.programs import OLD_SDK
from tests.processes import ServerProcess, free_port, running

Target = str | Sequence[str]
"""What a client is given: the URL of a server that runs, or the command of one."""

_HERE = Path(__file__).parent
_PROGRAMS = _HERE / "programs"
_MEMORY = "memory://"


@contextmanager
def serving(name: str) -> Generator[Target]:
    """Serve `server-transport`; in `fastmcp_redis-http` tasks are kept in a Redis."""
    server, transport = name.rsplit("-")
    if transport == "stdio":
        yield command(server, "stdio")
    elif server == "fastmcp_redis":
        with closing(Redis()) as redis, over_http("fastmcp", redis.address) as (url, _):
            yield url
    else:
        with over_http(server) as (url, _):
            yield url


@contextmanager
def over_http(server: str, store: str = _MEMORY) -> Generator[tuple[str, ServerProcess]]:
    """Give the URL, and the process that is there."""
    port = free_port()
    with running(command(server, "http", port, store), port, _environment(server, port)) as process:
        yield f"http://127.0.0.1:{port}/mcp", process


def command(server: str, transport: str, port: int = 0, store: str = _MEMORY) -> Sequence[str]:
    match server:
        case "fastmcp":
            return _python(fastmcp_venv.python(), "on_fastmcp.py", transport, port, store)
        case "sdk_v1":
            return _python(venvs.python("mcp", OLD_SDK), "on_sdk_v1.py", transport, port)
        case "plain":
            return _python(Path(sys.executable), "plain.py", transport, port)
        case "plain_v1":
            return _python(venvs.python("mcp", OLD_SDK), "plain_v1.py", transport, port)
        case "everything":
            script = _scope() / "server-everything" / "dist" / "index.js"
            return [str(NODE), str(script), "streamableHttp" if transport == "http" else transport]
        case "filesystem":
            return [str(NODE), str(_scope() / "server-filesystem" / "dist" / "index.js")]
        case "interactive":
            examples = _scope() / "sdk" / "dist" / "esm" / "examples"
            return [str(NODE), str(examples / "server" / "simpleTaskInteractive.js")]
        case _:
            raise ValueError(server)


def _python(python: Path, program: str, *arguments: object) -> Sequence[str]:
    return [str(python), str(_PROGRAMS / program), *(str(argument) for argument in arguments)]


def _scope() -> Path:
    return packages(_HERE, "node-servers") / "node_modules" / "@modelcontextprotocol"


def _environment(server: str, port: int) -> Mapping[str, str]:
    """The servers in TypeScript are told their port in this way."""
    return {"PORT": str(port)} if server in ("everything", "interactive") else {}
