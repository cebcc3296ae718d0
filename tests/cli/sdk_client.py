"""The SDK's own client, with an extension of one screen: our servers are tried with what others would write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from mcp import MCPError
from mcp.client import ClaimContext, ClientExtension, ClientRequestContext, ClientSession, ResultClaim
from mcp_types import CallToolResult, ErrorData, InputRequest, Request, Result


class Ticket(Result):
    """What a call is answered with that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str


class Task(Result):
    status: str
    status_message: str = ""
    poll_interval_ms: int = 1000
    input_requests: dict[str, InputRequest] | None = None
    result: CallToolResult | None = None
    error: ErrorData | None = None


class TaskRequest(Request[dict[str, Any], str]):
    name_param = "taskId"  # over HTTP it is repeated as a header


Watch = Callable[[Task], object]


class TasksClient(ClientExtension):
    """With it, `Client.call_tool` waits for a task as for any other call; `watch` is told of every poll."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, watch: Watch = lambda task: None) -> None:
        self._watch = watch

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Ticket, resolve=self._resolve)]

    async def _resolve(self, ticket: Ticket, context: ClaimContext) -> CallToolResult:
        return await collect(context.session, ticket.task_id, self._watch)


async def collect(session: ClientSession, task_id: str, watch: Watch = lambda task: None) -> CallToolResult:
    """Poll a task to its end, and answer what it asks. The id is all it takes, also after a restart of either side."""
    answered: set[str] = set()
    while True:
        task = await session.send_request(TaskRequest(method="tasks/get", params={"taskId": task_id}), Task)
        watch(task)
        if task.result:
            return task.result
        if task.error:
            raise MCPError.from_error_data(task.error)
        if task.status == "cancelled":
            raise MCPError(-32603, task.status_message)
        for key, question in (task.input_requests or {}).items():
            if key not in answered:
                answered.add(key)
                await _answer(session, task_id, key, question)
        await asyncio.sleep(task.poll_interval_ms / 1000)


async def _answer(session: ClientSession, task_id: str, key: str, question: InputRequest) -> None:
    """Ask whoever answers for this client, by the callbacks it was given."""
    answer = await session.dispatch_input_request(ClientRequestContext(session=session, request_id=key), question)
    responses = {key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)}
    params = {"taskId": task_id, "inputResponses": responses}
    await session.send_request(TaskRequest(method="tasks/update", params=params), Result)
