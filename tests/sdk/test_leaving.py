"""What becomes of a request whose client does not wait for it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE

import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp_types import CallToolRequestParams

from tests.sdk.asgi import PATIENCE
from tests.sdk.peer import NEWER, OLDER, Client
from tests.sdk.probe import RequestContext, serving
from tests.sdk.transports import Way, over_http

pytestmark = pytest.mark.anyio

CALL = {"name": "echo"}
ON_STDIO = "import asyncio; from mcp.server.mcpserver import MCPServer; asyncio.run(MCPServer('x').run_stdio_async())"


class Waiting:
    """An interceptor that waits, and knows what became of it."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.request_id: str | int | None = None

    async def __call__(self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        self.request_id = ctx.request_id
        self.has_begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.outcome.set_result("cancelled")
            raise
        result = await call_next(ctx)
        self.outcome.set_result("done")
        return result


async def test_a_request_that_an_older_client_cancels_is_cancelled(older: Way) -> None:
    waiting = Waiting()
    async with older(serving(interceptor=waiting)) as peer, asyncio.timeout(PATIENCE):
        peer.begin("tools/call", CALL)
        await waiting.has_begun.wait()
        await peer.notify("notifications/cancelled", {"requestId": waiting.request_id})
        assert await waiting.outcome == "cancelled"


@pytest.mark.parametrize(("version", "outcome"), [(NEWER, "cancelled"), (OLDER, "done")])
async def test_only_a_newer_client_cancels_by_hanging_up(version: str, outcome: str) -> None:
    """Of a request that is answered with a stream. With JSON, the SDK does not notice."""
    waiting = Waiting()
    async with over_http(serving(interceptor=waiting), Client(version)) as peer, asyncio.timeout(PATIENCE):
        peer.begin("tools/call", CALL)
        await waiting.has_begun.wait()
        await peer.close()
        waiting.may_end.set()
        assert await waiting.outcome == outcome


@pytest.mark.slow
async def test_a_server_on_stdio_ends_with_its_input() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ON_STDIO, stdin=PIPE, stdout=PIPE)
    assert process.stdin
    assert process.stdout
    async with asyncio.timeout(PATIENCE):
        greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": Client().greeting()}
        process.stdin.write(json.dumps(greeting).encode() + b"\n")
        assert json.loads(await process.stdout.readline())["result"]["protocolVersion"] == OLDER
        process.stdin.close()
        assert await process.wait() == 0
