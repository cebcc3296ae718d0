"""Clients of the served servers: the tutorial's own, and one that holds a stream open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import psutil
from mcp import Client
from mcp.client import NotificationBinding

from tests.cli.sdk_client import TasksClient, Ticket
from tests.cli.serving import PATIENCE, Served


class News(types.NotificationParams):
    task_id: str
    status: str
    status_message: str = ""


class Listener(TasksClient):
    """Hears of tasks by push."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: asyncio.Queue[News] = asyncio.Queue()

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=News, handler=self._heard.put)]

    async def hears(self, count: int, message: str) -> None:
        """Wait until `count` tasks have said `message`."""
        said: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while len(said) < count:
                news = await self._heard.get()
                if news.status_message == message:
                    said.add(news.task_id)


@asynccontextmanager
async def connected(url: str, extension: TasksClient | None = None) -> AsyncGenerator[Client]:
    async with Client(url, mode="2026-07-28", extensions=[extension or TasksClient()]) as client:
        yield client


async def hand_in(client: Client, tool: str) -> str:
    ticket = await client.session.call_tool(tool, {}, allow_claimed=True)
    assert isinstance(ticket, Ticket)
    return ticket.task_id


async def call(url: str, tool: str) -> Any:
    """Call a tool over a connection of its own."""
    async with connected(url) as client:
        return value(await client.call_tool(tool))


async def workers_of(served: Served) -> list[psutil.Process]:
    """Wait until two processes have answered, and return them."""
    pids: set[int] = set()
    async with asyncio.timeout(PATIENCE):
        while len(pids) < 2:
            pids |= set(await asyncio.gather(*(call(served.url, "process") for _ in range(8))))
    workers = [psutil.Process(pid) for pid in pids]
    assert {worker.ppid() for worker in workers} == {served.pid}
    return workers


def value(result: types.CallToolResult) -> Any:
    content: dict[str, Any] = result.structured_content or {}
    return content["result"]


def listening(client: Client, *task_ids: str) -> asyncio.Task[types.SubscriptionsListenResult]:
    """Hold a stream open for these tasks."""
    wanted = types.SubscriptionFilter.model_validate({"taskIds": list(task_ids)})
    request = types.SubscriptionsListenRequest(params=types.SubscriptionsListenRequestParams(notifications=wanted))
    return asyncio.create_task(client.session.send_request(request, types.SubscriptionsListenResult))
