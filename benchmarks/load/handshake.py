"""JSON-RPC as a client of 2025-11-25 speaks it: one session, as many connections as there are open requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from benchmarks.load.channel import Channel, Response
from benchmarks.load.session import Address, result_of

PROTOCOL = "2025-11-25"
_HELLO = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}


class Handshake:
    """One session of the older generation."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[Channel] = []
        self._session = ""
        self._id = 0

    async def __aenter__(self) -> Self:
        response = await self._exchange({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
        mark = response.head.find(b"mcp-session-id:")
        self._session = response.head[mark + 15 :].split(b"\r\n", 1)[0].strip().decode()
        await self._exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._idle:
            channel.close()

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request and return its result.

        Raises:
            RpcError: The server refused it.
        """
        self._id += 1
        request_id = self._id
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return result_of(request_id, await self._exchange(body))

    async def create(self, tool: str) -> str:
        """Call a tool as a task and return the task's id."""
        created = await self.request("tools/call", name=tool, arguments={}, task={})
        return str(created["task"]["taskId"])

    async def _exchange(self, body: dict[str, Any]) -> Response:
        raw = json.dumps(body).encode()
        known = f"Mcp-Session-Id: {self._session}\r\nMCP-Protocol-Version: {PROTOCOL}\r\n" if self._session else ""
        head = (
            f"POST {self._address.path} HTTP/1.1\r\nHost: {self._address.host}:{self._address.port}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"{known}Content-Length: {len(raw)}\r\n\r\n"
        ).encode()
        channel = await self._connected()
        response = await channel.exchange(head + raw)
        self._idle.append(channel)
        return response

    async def _connected(self) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if not channel.is_closed:
                return channel
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(Channel, self._address.host, self._address.port)
        return channel
