"""A client that speaks JSON to an `MCPServer` and keeps what it hears, stream by stream. Nothing of ours is between."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.sdk.asgi import PATIENCE

Json = dict[str, Any]
Stream = Literal["own", "standing", "only"]
"""Where a message came: with the answer of a request, on the connection's own, or there is but one."""

EARLIER, OLDER, NEWER = "2025-06-18", "2025-11-25", "2026-07-28"
"""The last version that had no tasks, and the two that have them."""


@dataclass(frozen=True)
class Client:
    """Who connects. `answers` is what it says to what it is asked, by method; None: it keeps silent."""

    version: str = OLDER
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: Mapping[str, Json] | None = field(default_factory=dict[str, Json])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_modern(self) -> bool:
        return self.version == NEWER

    def request(self, message_id: int, method: str, params: Mapping[str, Any]) -> Json:
        given = dict(params)
        if self.is_modern:
            envelope = {PROTOCOL_VERSION_META_KEY: self.version, CLIENT_CAPABILITIES_META_KEY: dict(self.capabilities)}
            given["_meta"] = {**envelope, **given.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": given}

    def greeting(self) -> Json:
        info = {"name": "contract", "version": "1"}
        return {"protocolVersion": self.version, "capabilities": dict(self.capabilities), "clientInfo": info}

    def answer(self, question: Json) -> Json | None:
        if self.answers is None:
            return None
        reply = {"jsonrpc": "2.0", "id": question["id"]}
        if question["method"] in self.answers:
            return {**reply, "result": self.answers[question["method"]]}
        return {**reply, "error": {"code": -32601, "message": "Method not found"}}


@dataclass(frozen=True)
class Heard:
    """A notification or a request of the server."""

    message: Json
    stream: Stream

    @property
    def params(self) -> Json:
        return self.message["params"]


class Peer(ABC):
    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: list[Heard] = []
        self.greeted: Json = {}
        self._news = asyncio.Event()
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def greet(self) -> None:
        """Shake hands, where the version has it."""
        if not self.client.is_modern:
            self.greeted = await self.result("initialize", self.client.greeting())
            await self.notify("notifications/initialized")

    def begin(self, method: str, params: Mapping[str, Any] | None = None) -> asyncio.Future[Json]:
        """Send a request. Returns what will be the message that answers it."""
        self._last_id += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = answer
        self.spawn(self.send(self.client.request(self._last_id, method, params or {})))
        return answer

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        """Return the message that answers a request, a result or an error."""
        async with asyncio.timeout(PATIENCE):
            return await self.begin(method, params)

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    async def hears(self, method: str) -> Heard:
        """Return the first message of this method, once there is one."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for heard in self.heard:
                    if heard.message["method"] == method:
                        return heard
                self._news.clear()
                await self._news.wait()

    @abstractmethod
    async def stand_by(self) -> None:
        """Be there for what comes with no answer."""

    @abstractmethod
    async def leave(self) -> None:
        """End the connection, as the transport has it."""

    async def close(self) -> None:
        """Drop whatever is still open."""
        for task in self._under_way:
            task.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._under_way, return_exceptions=True)

    @abstractmethod
    async def send(self, message: Json) -> None:
        """Put a message on the wire."""

    def receive(self, message: Json, stream: Stream) -> None:
        """Take a message from the wire."""
        assert message["jsonrpc"] == "2.0", message
        if "method" not in message:
            self._settle(message["id"], message)
            return
        self.heard.append(Heard(message, stream))
        self._news.set()
        if "id" in message and (answer := self.client.answer(message)):
            self.spawn(self.send(answer))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _settle(self, message_id: int, message: Json) -> None:
        answer = self._pending.pop(message_id)
        if not answer.done():
            answer.set_result(message)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Let whoever waits know what went wrong, since no answer will come."""
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()):
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(error)
