"""A call as a task, in the words of the generation a connection speaks: hand in, look, answer, cancel, collect."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol, cast

import msgspec
from mcp.shared.exceptions import MCPError

from coatcheck.client.channel import Channel
from coatcheck.client.tools import ToolInfo
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Question, Snapshot, read_task
from coatcheck.dialects.words import IDEMPOTENCY_KEY, milliseconds
from coatcheck.errors import ProtocolViolation

Ask = Callable[[Question, str], Awaitable[Json]]
"""Puts a question to the client's callbacks, with its key."""

_MOST_ROUNDS = 100
_PATIENCE = 60.0
"""Seconds in which a server should be able to say something about a task."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be called."""

    tool: str
    arguments: Mapping[str, Any]
    key: str
    """What makes repeats of it one; its progress is told under the same name."""
    ttl: timedelta | None = None
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """What else goes into the request's `_meta`."""
    more: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """What else goes into its params: what came of an earlier round, for who passes rounds on."""
    takes_rounds: Callable[[], bool] | None = None
    """Whether a round of questions is an answer to return, and not to be seen to here."""


Started = Snapshot | Json
"""A task, or the result itself."""


class Generation(Protocol):
    async def start(self, call: Call, info: ToolInfo, ask: Ask) -> Started: ...

    async def get(self, task_id: str) -> Snapshot: ...

    async def answer(self, task_id: str, responses: Mapping[str, Json]) -> None: ...

    async def cancel(self, task_id: str) -> None: ...

    async def result(self, snapshot: Snapshot) -> Json:
        """Return the result of a task that has ended.

        Raises:
            MCPError: It ended with an error.
        """
        ...


def generation(connection: Channel) -> Generation:
    return _V2026(connection) if connection.is_modern else _V2025(connection)


def new_key() -> str:
    return uuid.uuid4().hex


def _params(connection: Channel, call: Call) -> Json:
    meta: Json = {**call.meta, "progressToken": call.key}
    if connection.takes_keys:
        meta[IDEMPOTENCY_KEY] = call.key
    return {"name": call.tool, "arguments": dict(call.arguments), **call.more, "_meta": meta}


class _V2026:
    def __init__(self, connection: Channel) -> None:
        self._connection = connection

    async def start(self, call: Call, info: ToolInfo, ask: Ask) -> Started:
        """Call a tool; what it asks before it begins is asked in rounds of the call."""
        params = _params(self._connection, call)
        headers = info.headers_for(call.arguments)
        for _ in range(_MOST_ROUNDS):
            result = await self._connection.request("tools/call", params, name=call.tool, headers=headers)
            match result.get("resultType", "complete"):
                case "task":
                    return read_task(result)
                case "input_required" if not (call.takes_rounds and call.takes_rounds()):
                    params = {**params, **await _round(result, ask)}
                case _:
                    return result
        raise ProtocolViolation(f"The server asked more than {_MOST_ROUNDS} times before it called {call.tool!r}")

    async def get(self, task_id: str) -> Snapshot:
        return _of(task_id, await self._send("tasks/get", task_id))

    async def answer(self, task_id: str, responses: Mapping[str, Json]) -> None:
        await self._send("tasks/update", task_id, inputResponses=dict(responses))

    async def cancel(self, task_id: str) -> None:
        await self._send("tasks/cancel", task_id)

    async def result(self, snapshot: Snapshot) -> Json:
        if snapshot.error is not None:
            error = snapshot.error
            raise MCPError(error.get("code", -32603), error.get("message", "The task failed"), error.get("data"))
        return dict(snapshot.result or {})

    async def _send(self, method: str, task_id: str, **more: Any) -> Json:
        params = {"taskId": task_id, **more}
        return await self._connection.request(method, params, name=task_id, timeout=_PATIENCE)


async def _round(result: Json, ask: Ask) -> Json:
    """Answer what a call asks before it goes on; return what it has to be called with the next time."""
    asked: Any = result.get("inputRequests") or {}
    responses = {
        key: await ask(Question(request["method"], request.get("params") or {}), key)
        for key, request in cast("Mapping[str, Json]", asked).items()
    }
    state = result.get("requestState")
    return {
        **({"inputResponses": responses} if responses else {}),
        **({} if state is None else {"requestState": state}),
    }


class _V2025:
    def __init__(self, connection: Channel) -> None:
        self._connection = connection

    async def start(self, call: Call, info: ToolInfo, ask: Ask) -> Started:
        """Call a tool, as a task if it can be one; questions come by themselves."""
        params = _params(self._connection, call)
        if self._connection.has_tasks and info.task_support in ("optional", "required"):
            params["task"] = {} if call.ttl is None else {"ttl": milliseconds(call.ttl)}
        result = await self._connection.request("tools/call", params)
        return read_task(result["task"]) if isinstance(result.get("task"), dict) else result

    async def get(self, task_id: str) -> Snapshot:
        return _of(task_id, await self._send("tasks/get", task_id))

    async def answer(self, task_id: str, responses: Mapping[str, Json]) -> None:
        raise ProtocolViolation("2025-11-25 has no answers by key; the question comes to whoever waits for the task")

    async def cancel(self, task_id: str) -> None:
        await self._send("tasks/cancel", task_id)

    async def result(self, snapshot: Snapshot) -> Json:
        return await self._connection.request("tasks/result", {"taskId": snapshot.id})

    async def _send(self, method: str, task_id: str) -> Json:
        return await self._connection.request(method, {"taskId": task_id}, timeout=_PATIENCE)


def _of(task_id: str, raw: Json) -> Snapshot:
    """Read the task that was asked for. A server may not know better than to send another."""
    snapshot = read_task(raw)
    if snapshot.id != task_id:
        raise ProtocolViolation(f"Asked for task {task_id}, the server answered with another")
    return snapshot
