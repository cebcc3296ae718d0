"""Peers on one stream for everything: in this process, and with a process over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.forked import Forked, call_coatcheck, fork
from tests.matrix.clients import Client, Json
from tests.matrix.peers import PATIENCE, Peer

_ROOT = Path(__file__).parents[2]
_COMMAND = ("serve", "tests.matrix.server:server", "--stdio")
_LONGEST_LINE = 1 << 20


class InMemory(Peer):
    """On the SDK's own streams. Its messages there are models of the envelope alone; they are read as their JSON."""

    def __init__(self, client: Client, streams: MessageStream) -> None:
        super().__init__(client)
        self._from, self._to = streams

    async def send(self, message: Json) -> None:
        await self._to.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))

    async def read(self) -> None:
        async for item in self._from:
            assert isinstance(item, SessionMessage), item
            self.receive(json.loads(item.message.model_dump_json(by_alias=True, exclude_unset=True)))


@asynccontextmanager
async def in_memory(server: MCPServer[Any], client: Client) -> AsyncGenerator[Peer]:
    """Serve one client in this process. The server must have made its HTTP application: the public way to its core."""
    core = server.session_manager.app
    async with create_client_server_memory_streams() as (ours, theirs):
        peer = InMemory(client, ours)
        serving = asyncio.create_task(core.run(*theirs, core.create_initialization_options()))
        reading = peer.start(peer.read())
        await peer.greet()
        yield peer
        await peer.close()
        await ours[1].aclose()
        async with asyncio.timeout(PATIENCE):
            await serving
            await reading


class OnStdio(Peer):
    def __init__(self, client: Client, process: Forked, said: asyncio.StreamReader) -> None:
        super().__init__(client)
        self._process, self._from = process, said

    async def send(self, message: Json) -> None:
        self._process.tell(json.dumps(message))

    async def read(self) -> None:
        while line := await self._from.readline():
            self.receive(json.loads(line))

    async def hang_up(self) -> None:
        self._process.tell_no_more()


@asynccontextmanager
async def on_stdio(client: Client) -> AsyncGenerator[Peer]:
    """Serve one client by the command line."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("COATCHECK_")}
    process, said = await fork(call_coatcheck, _COMMAND, _ROOT, known, stream=1, limit=_LONGEST_LINE)
    try:
        peer = OnStdio(client, process, said)
        reading = peer.start(peer.read())
        await peer.greet()
        yield peer
        await peer.close()
        await peer.hang_up()
        async with asyncio.timeout(PATIENCE):
            await reading
        assert await process.ended(PATIENCE) == 0
    finally:
        await process.clean_up(PATIENCE)
