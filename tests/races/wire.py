"""Clients of every generation on in-memory connections: raw messages, and answers when the test says so."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, jsonrpc_message_adapter

from tests.server.wire import EXTENSION

PATIENCE = 60
"""Seconds to wait for what should come at once, or soon; those of the loop, so they cost nothing."""
Json = dict[str, Any]
Core = Server[Any]
RELATED = "io.modelcontextprotocol/related-task"
ASKABLE: Json = {"elicitation": {"form": {}}}


@dataclass(frozen=True)
class Kind:
    """What a client is: its version, and what it can do."""

    version: str
    capabilities: Mapping[str, Any]

    @property
    def is_modern(self) -> bool:
        return self.version >= "2026"


OLDER = Kind("2025-11-25", ASKABLE)
NEWER = Kind("2026-07-28", {**ASKABLE, "extensions": {EXTENSION: {}}})
KEEPER = Kind("2025-11-25", {**ASKABLE, "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}}}})
"""Keeps what it is asked as tasks of its own."""
OLD = Kind("2025-06-18", {"elicitation": {}})
"""Knows no tasks, but can be asked."""
DUMB = Kind("2025-06-18", {})
"""Knows no tasks, and cannot be asked."""
PLAIN = Kind("2026-07-28", ASKABLE)
"""Knows no tasks either."""


def accepted(name: str) -> Json:
    """Return the answer of a person to the question who."""
    return {"action": "accept", "content": {"name": name}}


@dataclass(eq=False)
class Question:
    """A request of the server."""

    client: Client
    id: Any
    method: str
    params: Json
    asker: Any
    """The request on whose stream it came."""
    answered_with: Json | None = None
    is_withdrawn: bool = False
    """Whether the server has said that it needs no answer any more."""

    @property
    def is_open(self) -> bool:
        return self.answered_with is None and not self.is_withdrawn

    async def answer(self, name: str) -> None:
        """Say who, unless the question is not open any more."""
        await self.reply(accepted(name))

    async def reply(self, result: Json) -> None:
        if self.is_open:
            self.answered_with = result
            await self.client.send({"jsonrpc": "2.0", "id": self.id, "result": result})


@dataclass(eq=False)
class Call:
    """A request to the server."""

    id: int
    future: asyncio.Future[Json]

    @property
    def is_answered(self) -> bool:
        return self.future.done()

    async def answer(self) -> Json:
        """Return what it is answered with: `result` or `error`. Bounded."""
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(self.future)

    async def result(self) -> Json:
        answer = await self.answer()
        if error := answer.get("error"):
            raise MCPError(error["code"], error["message"], error.get("data"))
        return answer["result"]


class Client(ABC):
    """Sends what it is told to, and keeps all it hears."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.questions: list[Question] = []
        self.heard: list[Json] = []
        self.calls: dict[int, Call] = {}

    async def greet(self) -> None:
        if not self.kind.is_modern:
            await self.request(
                "initialize",
                {
                    "protocolVersion": self.kind.version,
                    "capabilities": self.kind.capabilities,
                    "clientInfo": {"name": "racer", "version": "1"},
                },
            )
            await self.notify("notifications/initialized")

    async def begin(self, method: str, params: Mapping[str, Any]) -> Call:
        """Send a request, and do not wait for its answer."""
        call = Call(len(self.calls) + 1, asyncio.get_running_loop().create_future())
        self.calls[call.id] = call
        given = dict(params)
        if self.kind.is_modern:
            envelope = {
                PROTOCOL_VERSION_META_KEY: self.kind.version,
                CLIENT_CAPABILITIES_META_KEY: self.kind.capabilities,
            }
            given["_meta"] = {**envelope, **given.get("_meta", {})}
        await self.send({"jsonrpc": "2.0", "id": call.id, "method": method, "params": given})
        return call

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        return await (await self.begin(method, params)).result()

    async def begin_call(self, tool: str, /, **arguments: Any) -> Call:
        return await self.begin("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        return await (await self.begin_call(tool, **arguments)).result()

    async def hand_in(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that becomes a task, and return the task's id."""
        wish: Json = {} if self.kind.is_modern else {"task": {}}
        created = await self.request("tools/call", {"name": tool, "arguments": arguments, **wish})
        return created["taskId"] if self.kind.is_modern else created["task"]["taskId"]

    async def of_task(self, verb: str, task_id: str, **more: Any) -> Json:
        return await self.request(f"tasks/{verb}", {"taskId": task_id, **more})

    async def give_up(self, call: Call) -> None:
        """Tell the server that nobody waits for the answer any more."""
        await self.notify("notifications/cancelled", {"requestId": call.id})

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})})

    @property
    def open_questions(self) -> list[Question]:
        return [question for question in self.questions if question.is_open]

    @abstractmethod
    async def send(self, message: Json) -> None:
        """Put a message on the wire."""

    def take(self, message: Json, stream: Any) -> None:
        """Take a message from the wire, which came on the stream of that request."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": asked}}:
                for question in self.questions:
                    question.is_withdrawn = question.is_withdrawn or question.id == asked
            case {"method": method, "id": asked}:
                self.questions.append(Question(self, asked, method, message.get("params", {}), stream))
            case {"method": _}:
                self.heard.append(message)
            case _:
                call = self.calls[message["id"]]
                assert not call.is_answered, f"a second answer: {message}, after {call.future.result()}"
                call.future.set_result(message)


class InMemory(Client):
    def __init__(self, kind: Kind, streams: MessageStream) -> None:
        super().__init__(kind)
        self._from, self._to = streams
        self._is_gone = False

    async def send(self, message: Json) -> None:
        if not self._is_gone:
            await self._to.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))

    async def leave(self) -> None:
        """Hang up, whatever is under way."""
        self._is_gone = True
        await self._to.aclose()

    async def read(self) -> None:
        async for item in self._from:
            assert isinstance(item, SessionMessage), item
            stream = item.metadata.related_request_id if isinstance(item.metadata, ServerMessageMetadata) else None
            self.take(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True), stream)


@asynccontextmanager
async def connected(core: Core, kind: Kind) -> AsyncGenerator[InMemory]:
    """Serve one client. Who has hung up already leaves nothing behind."""
    async with create_client_server_memory_streams() as (ours, theirs):
        client = InMemory(kind, ours)
        serving = asyncio.create_task(core.run(*theirs, core.create_initialization_options()))
        reading = asyncio.create_task(client.read())
        try:
            await client.greet()
            yield client
        finally:
            await client.leave()
            async with asyncio.timeout(PATIENCE):
                await serving
                await reading
