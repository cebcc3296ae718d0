"""JSON-RPC as one client speaks it, over one connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.load.channel import Channel, Response

PROTOCOL = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
TERMINAL = frozenset({"completed", "failed", "cancelled"})

Arguments = Mapping[str, Any]


class RpcError(Exception):
    """The server answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    path: str
    headers: tuple[str, ...] = ()

    @classmethod
    def of(cls, url: str, headers: Sequence[str] = ()) -> Self:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise SystemExit(f"not an http:// URL: {url}")
        return cls(parts.hostname, parts.port or 80, parts.path or "/", tuple(headers))


class Session:
    """One client: a connection, its headers and its capabilities."""

    def __init__(self, address: Address, *, knows_tasks: bool = True) -> None:
        self._address = address
        self._channel: Channel | None = None
        self._id = 0
        self._meta = _meta(knows_tasks)
        self._head = _head(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._channel:
            self._channel.close()

    async def request(self, method: str, route: str = "", **params: Any) -> dict[str, Any]:
        """Send one request and return its result; `route` is the tool or the task that the header names once more.

        Raises:
            RpcError: The server refused it.
        """
        self._id += 1
        given = json.dumps(params)[1:-1] + ", " if params else ""
        body = (
            f'{{"jsonrpc": "2.0", "id": {self._id}, "method": "{method}", "params": {{{given}"_meta": {self._meta}}}}}'
        ).encode()
        routing = f"Mcp-Method: {method}\r\n" + (f"Mcp-Name: {route}\r\n" if route else "")
        head = f"{self._head}{routing}Content-Length: {len(body)}\r\n\r\n".encode()
        channel = await self._connected()
        return result_of(self._id, await channel.exchange(head + body))

    async def call(self, tool: str, arguments: Arguments) -> dict[str, Any]:
        """Call a tool; the result has a `taskId` if the server made it a task."""
        return await self.request("tools/call", tool, name=tool, arguments=arguments)

    async def get(self, task: str) -> dict[str, Any]:
        return await self.request("tasks/get", task, taskId=task)

    async def cancel(self, task: str) -> dict[str, Any]:
        return await self.request("tasks/cancel", task, taskId=task)

    async def create(self, tool: str, arguments: Arguments) -> str:
        """Call a tool that has to become a task; return the task's id."""
        created = await self.call(tool, arguments)
        if created.get("resultType") != "task":
            raise SystemExit(f"tool {tool!r} did not create a task: {created}")
        return str(created["taskId"])

    async def _connected(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            loop = asyncio.get_running_loop()
            _, self._channel = await loop.create_connection(Channel, self._address.host, self._address.port)
        return self._channel


@asynccontextmanager
async def sessions(address: Address, count: int, *, knows_tasks: bool = True) -> AsyncGenerator[list[Session]]:
    """Open `count` clients and close them afterwards."""
    async with AsyncExitStack() as stack:
        clients = [Session(address, knows_tasks=knows_tasks) for _ in range(count)]
        yield [await stack.enter_async_context(client) for client in clients]


def result_of(request_id: int, response: Response) -> dict[str, Any]:
    for message in messages(response):
        if message.get("id") != request_id:
            continue
        if "error" in message:
            raise RpcError(message["error"]["code"], message["error"]["message"])
        return message["result"]
    raise RpcError(response.status, f"no answer in an HTTP {response.status} response: {response.body[:200]!r}")


def messages(response: Response) -> Iterator[dict[str, Any]]:
    """Yield the JSON-RPC messages of a JSON body or of an event stream."""
    if b"text/event-stream" in response.head:
        for line in response.body.splitlines():
            if line.startswith(b"data:"):
                yield json.loads(line[5:])
    elif response.body:
        yield json.loads(response.body)


def _meta(knows_tasks: bool) -> str:
    capabilities: dict[str, Any] = {"elicitation": {}, "extensions": {TASKS: {}}} if knows_tasks else {}
    return json.dumps(
        {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
    )


def _head(address: Address) -> str:
    lines = (
        f"POST {address.path} HTTP/1.1",
        f"Host: {address.host}:{address.port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {PROTOCOL}",
        *address.headers,
    )
    return "".join(f"{line}\r\n" for line in lines)
