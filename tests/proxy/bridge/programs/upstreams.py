"""The servers behind the proxy: without tasks, and with tasks of one generation, which is all that they speak."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Literal

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from coatcheck import Policy
from coatcheck.dialects import v2025, v2026
from coatcheck.server import TaskPolicy, TaskServer
from coatcheck.server.http.app import http_app
from tests.proxy.bridge.programs.tools import TOOLS, rounds

Kind = Literal["plain", "older", "bound", "newer"]
"""bound: of the older generation too, and its tasks are those of a session, with which they end."""
_TASK = TaskPolicy("optional", resumable=True, poll_interval=0.1)


def plain() -> MCPServer[Any]:
    server = MCPServer[Any]("plain")
    for tool in (*TOOLS, rounds):
        server.add_tool(tool)
    return server


def with_tasks(store: str, *, binds_sessions: bool) -> TaskServer:
    policy = Policy(lease=timedelta(seconds=2), quota=None)
    server = TaskServer("tasks", store=store, policy=policy, grace=0.1, bind_sessions=binds_sessions)
    for tool in TOOLS:
        server.add_tool(tool, task=_TASK)
    return server


class Only:
    """Lets through who speaks certain versions, and answers others as a server does that has never heard of theirs."""

    def __init__(self, app: ASGIApp, versions: Collection[bytes | None]) -> None:
        self._app, self._versions = app, versions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            version = dict(scope["headers"]).get(b"mcp-protocol-version")
            if version not in self._versions:
                said = f"Bad Request: Unsupported protocol version: {version and version.decode()}"
                error = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": said}}
                await JSONResponse(error, 400)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def app(kind: Kind, store: str) -> ASGIApp:
    if kind == "plain":
        return plain().streamable_http_app()
    server = with_tasks(store, binds_sessions=kind == "bound")
    # Who says hello in the older generation has not agreed on a version yet.
    versions = {v2026.VERSION.encode()} if kind == "newer" else {None, v2025.VERSION.encode()}
    return Only(http_app(server, server.tasks), versions)


def serve(kind: Kind, store: str, port: int) -> None:
    """Serve until killed."""
    config = uvicorn.Config(app(kind, store), "127.0.0.1", port, loop="uvloop", http="httptools", log_level="warning")
    uvicorn.Server(config).run()


if __name__ == "__main__":
    plain().run("stdio")
