"""The SDK's own clients and transports: a real server over HTTP, and a real process over stdio."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp import Client
from mcp.client import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters

from tests.requirements.marks import requirement
from tests.server.programs import build
from tests.server.wire import EXTENSION, PATIENCE, WithSDK, client_options, headers, in_memory, message

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def _listening(app: Any) -> AsyncGenerator[str]:
    """Serve an application on a free port; who connects before it is ready has to wait in the queue."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=5, lifespan="on", ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            async with asyncio.timeout(PATIENCE):
                await serving


@pytest.fixture(params=[True, False], ids=["json", "sse"])
async def http(request: pytest.FixtureRequest) -> AsyncGenerator[WithSDK]:
    server = build("memory://")
    async with (
        _listening(server.streamable_http_app(json_response=request.param)) as url,
        Client(url, **client_options()) as client,
    ):
        yield WithSDK(client, server.tasks)


@pytest.fixture
async def stdio(tmp_path: Path) -> AsyncGenerator[WithSDK]:
    url = f"sqlite:///{tmp_path}/tasks.db"
    program = StdioServerParameters(command=sys.executable, args=["-m", "tests.server.programs", url], cwd=ROOT)
    watching = build(url, concurrency=0)
    async with in_memory(watching), Client(program, **client_options()) as client:
        yield WithSDK(client, watching.tasks)


async def _answered(caller: WithSDK) -> dict[str, Any]:
    task_id = await caller.hand_in("ask")
    asked = await caller.asked(task_id)
    assert asked["statusMessage"] == "Asking (1 of 2)"
    (key,) = asked["inputRequests"]
    await caller.update(task_id, {key: {"action": "accept", "content": {"name": "Ann"}}})
    return await caller.finished(task_id)


@requirement("R-20")
async def test_a_task_over_http_asks_and_completes(http: WithSDK) -> None:
    assert (await _answered(http))["result"]["content"][0]["text"] == "Ann"


@requirement("R-20")
async def test_a_task_over_stdio_asks_and_completes(stdio: WithSDK) -> None:
    assert (await _answered(stdio))["result"]["content"][0]["text"] == "Ann"


@requirement("S-047")
async def test_a_task_over_stdio_can_be_cancelled(stdio: WithSDK) -> None:
    task_id = await stdio.hand_in("ask")
    await stdio.asked(task_id)
    await stdio.cancel(task_id)
    assert (await stdio.get(task_id))["status"] == "cancelled"


@requirement("S-049")
async def test_a_cancelled_notification_over_stdio_does_not_cancel_a_task(stdio: WithSDK) -> None:
    task_id = await stdio.hand_in("ask")
    await stdio.asked(task_id)
    for request_id in (1, task_id):
        params = types.CancelledNotificationParams(request_id=request_id)
        await stdio.client.session.send_notification(types.CancelledNotification(params=params))
    assert (await stdio.get(task_id))["status"] == "input_required"
    await stdio.cancel(task_id)


class Ticket(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str


class Driver(ClientExtension):
    """Drives a task to its end within `call_tool`, with what the SDK offers client authors."""

    identifier = EXTENSION

    def __init__(self, caller: list[WithSDK]) -> None:
        self._caller = caller

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Ticket, resolve=self._resolve)]

    async def _resolve(self, ticket: Ticket, _: ClaimContext) -> types.CallToolResult:
        done = await self._caller[0].finished(ticket.task_id)
        return types.CallToolResult.model_validate(done["result"])


async def test_a_client_extension_of_the_sdk_can_drive_a_task_inside_a_call() -> None:
    server, callers = build("memory://"), list[WithSDK]()
    options: dict[str, Any] = {**client_options(), "extensions": [Driver(callers)]}
    async with _listening(server.streamable_http_app()) as url, Client(url, **options) as client:
        callers.append(WithSDK(client, server.tasks))
        result = await client.call_tool("where", {})
    assert result.structured_content == {"result": os.getpid()}


@requirement("S-073")
async def test_a_stream_over_a_real_connection_ends_as_agreed_when_the_server_stops() -> None:
    server = build("memory://")
    body = message("subscriptions/listen", {"notifications": {"taskIds": []}}, message_id="sub")
    async with (
        _listening(server.streamable_http_app()) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as client,
        client.stream("POST", url, headers=dict(headers(body)[1:]), json=body) as stream,
    ):
        lines = stream.aiter_lines()
        async for line in lines:
            if "acknowledged" in line:
                break
        server.tasks.end_streams()
        rest = [line async for line in lines if line.startswith("data:")]
    assert len(rest) == 1
    assert '"resultType":"complete"' in rest[0].replace(" ", "")


async def test_a_poll_over_a_real_connection_is_plain_json() -> None:
    server = build("memory://")
    async with (
        _listening(server.streamable_http_app()) as url,
        Client(url, **client_options()) as sdk,
        httpx2.AsyncClient(timeout=PATIENCE) as client,
    ):
        caller = WithSDK(sdk, server.tasks)
        task_id = await caller.hand_in("where")
        done = await caller.finished(task_id)
        body = message("tasks/get", {"taskId": task_id})
        answer = await client.post(url, headers=dict(headers(body)[1:]), json=body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"] == done
