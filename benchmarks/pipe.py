"""JSON-RPC as one client speaks it over stdio, to a server that is its child."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.children import ROOT
from benchmarks.load import handshake, session
from benchmarks.load.session import Arguments, RpcError

_SELF: dict[str, Any] = {"name": "load", "version": "1"}
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": session.PROTOCOL,
    "io.modelcontextprotocol/clientInfo": _SELF,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {session.TASKS: {}}},
}
_HELLO = {"protocolVersion": handshake.PROTOCOL, "capabilities": {}, "clientInfo": _SELF}


class Pipe:
    """One request at a time, in the words of 2026-07-28 until hands are shaken."""

    def __init__(self, process: Process) -> None:
        assert process.stdin
        assert process.stdout
        self._to, self._from = process.stdin, process.stdout
        self._id = 0
        self._also: dict[str, Any] = {"_meta": _META}

    async def shake_hands(self) -> None:
        """Go on as a client of 2025-11-25."""
        self._also = {}
        await self.request("initialize", **_HELLO)
        self._send({"method": "notifications/initialized"})

    async def call(self, tool: str, arguments: Arguments) -> dict[str, Any]:
        return await self.request("tools/call", name=tool, arguments=arguments)

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request and return its result.

        Raises:
            RpcError: The server refused it.
        """
        self._id += 1
        self._send({"id": self._id, "method": method, "params": {**params, **self._also}})
        answer = json.loads(await self._from.readline())
        if "error" in answer:
            raise RpcError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def piped(command: Sequence[str]) -> AsyncGenerator[Pipe]:
    """Start a server and give its client; it ends when nobody writes to it any more."""
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        yield Pipe(process)
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()
