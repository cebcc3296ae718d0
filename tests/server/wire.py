"""Requests of 2026-07-28 as they look on the wire, and who sends them: in memory, or to the ASGI application."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import mcp_types as types
from mcp import Client
from mcp.client import advertise
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from pydantic import ConfigDict

from coatcheck import AlreadyFinished, Status
from coatcheck.server import Tasks, TaskServer
from tests.server.asgi import Answer, Exchange, exchange, running

VERSION = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_KEY, PROGRESS = "coatcheck/idempotencyKey", "coatcheck/progress"
TASK_SUPPORT = "coatcheck/taskSupport"
TASKS: dict[str, Any] = {"extensions": {EXTENSION: {}}}
"""The capabilities of a client that knows tasks."""
ABLE: dict[str, Any] = {**TASKS, "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""And of one that can also be asked everything."""
PATIENCE = 20
"""Seconds to wait for what should come at once."""

Json = dict[str, Any]
Headers = Sequence[tuple[str, str]]
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


def message(
    method: str, params: Mapping[str, Any] | None = None, capabilities: Any = ABLE, message_id: Any = 1
) -> Json:
    meta = {PROTOCOL_VERSION_META_KEY: VERSION, CLIENT_CAPABILITIES_META_KEY: capabilities}
    given = dict(params or {})
    return {
        "jsonrpc": "2.0",
        "id": message_id,
        "method": method,
        "params": {**given, "_meta": {**meta, **given.get("_meta", {})}},
    }


def headers(body: Json, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the headers the protocol asks for with this message, then `more`, which replace those of their name."""
    method, params = body["method"], body.get("params", {})
    given = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
    }
    if method in NAMED:
        given["mcp-name"] = str(params.get(NAMED[method]))
    return list({**given, **dict(more)}.items())


class Caller(ABC):
    """A client that tells what it was told, as JSON."""

    tasks: Tasks

    @abstractmethod
    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        """Send a request and return its result. Raises MCPError if it is refused."""

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def hand_in(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that becomes a task, and return the task's id."""
        created = await self.call(tool, **arguments)
        assert created["resultType"] == "task", created
        return created["taskId"]

    async def get(self, task_id: str) -> Json:
        return await self.request("tasks/get", {"taskId": task_id})

    async def update(self, task_id: str, answers: Mapping[str, Any]) -> Json:
        return await self.request("tasks/update", {"taskId": task_id, "inputResponses": answers})

    async def cancel(self, task_id: str) -> Json:
        return await self.request("tasks/cancel", {"taskId": task_id})

    async def finished(self, task_id: str) -> Json:
        """Return what a poll says once the task has ended."""
        engine = self.tasks.running.engine
        task = await engine.finished(await engine.get(task_id), PATIENCE)
        assert task.status.is_terminal, task
        return await self.get(task_id)

    async def asked(self, task_id: str, questions: int = 1) -> Json:
        """Return what a poll says once so many questions are open."""
        engine = self.tasks.running.engine
        task = await engine.get(task_id)
        async with asyncio.timeout(PATIENCE):
            while len(task.input_requests) < questions:
                assert not task.status.is_terminal, task
                task = await engine.wait(task, PATIENCE)
        assert task.status is Status.INPUT_REQUIRED
        return await self.get(task_id)

    async def result(self, tool: str, /, **arguments: Any) -> Json:
        """Hand a call in and return the result its task ends with."""
        task = await self.finished(await self.hand_in(tool, **arguments))
        assert task["status"] == "completed", task
        return task["result"]


class WithSDK(Caller):
    """The SDK's own client, in memory or on any of its transports."""

    def __init__(self, client: Client, tasks: Tasks) -> None:
        self.client, self.tasks = client, tasks

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        kind = _AskOfTask if method.startswith("tasks/") and "taskId" in params else _Ask
        asked = kind(method=method, params=dict(params))
        answer = await self.client.session.send_request(asked, _Anything)
        return answer.model_dump(mode="json", by_alias=True, exclude_unset=True)


class OverHTTP(Caller):
    """Posts to the ASGI application, byte for byte."""

    def __init__(self, app: Any, tasks: Tasks, capabilities: Any = ABLE, token: str | None = None) -> None:
        self.app, self.tasks, self.capabilities = app, tasks, capabilities
        self._more: list[tuple[str, str]] = [("authorization", f"Bearer {token}")] if token else []
        self._last_id = 0

    def again(self, capabilities: Any = ABLE, token: str | None = None) -> OverHTTP:
        """Return another client of the same server."""
        return OverHTTP(self.app, self.tasks, capabilities, token)

    def message(self, method: str, params: Mapping[str, Any]) -> Json:
        self._last_id += 1
        return message(method, params, self.capabilities, self._last_id)

    async def post(self, body: Json | bytes, given: Headers | None = None) -> Answer:
        """Post a body, with the headers it should have unless others are given."""
        async with self.open(body, given) as sent:
            return await sent.answer()

    @asynccontextmanager
    async def open(self, body: Json | bytes, given: Headers | None = None) -> AsyncGenerator[Exchange]:
        if given is None:
            assert isinstance(body, dict)
            given = headers(body, *self._more)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with exchange(self.app, raw, given, PATIENCE) as sent:
            yield sent

    async def request(self, method: str, params: Mapping[str, Any]) -> Json:
        answer = (await self.post(self.message(method, params))).message()
        if error := cast("Json | None", answer.get("error")):
            raise MCPError(error["code"], error["message"], error.get("data"))
        assert answer["id"] == self._last_id
        return answer["result"]

    @asynccontextmanager
    async def listening(self, *task_ids: str, **kinds: Any) -> AsyncGenerator[Exchange]:
        """Open a stream for these tasks, and for the core's kinds, if any."""
        wanted = {"notifications": {"taskIds": list(task_ids), **kinds}}
        async with self.open(self.message("subscriptions/listen", wanted)) as sent:
            yield sent


@asynccontextmanager
async def in_memory(server: MCPServer[Any], tasks: Tasks | None = None, **options: Any) -> AsyncGenerator[WithSDK]:
    """Connect the SDK's client; it declares tasks, and that it can be asked, unless `options` say otherwise."""
    tasks = tasks or cast("TaskServer", server).tasks
    async with Client(server, **{**client_options(), **options}) as client, leaving_nothing(tasks):
        yield WithSDK(client, tasks)


def client_options() -> dict[str, Any]:
    """Return what makes the SDK's client one of 2026-07-28 that knows tasks and can be asked everything."""
    able = dict.fromkeys(("elicitation_callback", "sampling_callback", "list_roots_callback"), _never)
    return {"mode": VERSION, "extensions": [advertise(EXTENSION)], **able}


@asynccontextmanager
async def over_http(
    server: MCPServer[Any], tasks: Tasks | None = None, *, capabilities: Any = ABLE, **options: Any
) -> AsyncGenerator[OverHTTP]:
    """Run the server's ASGI application and give a client of it."""
    app = server.streamable_http_app(**options)
    tasks = tasks or cast("TaskServer", server).tasks
    async with running(app), leaving_nothing(tasks):
        yield OverHTTP(app, tasks, capabilities)


@asynccontextmanager
async def leaving_nothing(tasks: Tasks) -> AsyncGenerator[None]:
    """Cancel in the end what is still under way: a server that stops would wait for it."""
    yield
    engine = tasks.running.engine
    for task in await engine.list(limit=1000):
        with suppress(AlreadyFinished):
            await engine.cancel(task.id)


async def _never(*_: Any) -> Any:
    """Declares a capability: requests of tasks are answered by the tests themselves."""
    raise AssertionError("A task asks through inputRequests, never directly")


class _Ask(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class _AskOfTask(_Ask):
    name_param = "taskId"


class _Anything(types.Result):
    model_config = ConfigDict(extra="allow")
