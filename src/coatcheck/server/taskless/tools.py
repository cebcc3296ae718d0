"""The tools that take tickets, for clients without tasks: look, wait, answer, cancel, list."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from coatcheck.answers import answer_of, open_question
from coatcheck.dialects import v2025
from coatcheck.errors import AlreadyFinished, CoatcheckError
from coatcheck.payload import encode
from coatcheck.server.bodies.kinds import TOOL, kind_of
from coatcheck.server.failures import Stopping, protocol_error
from coatcheck.server.listing import page
from coatcheck.server.runtime import Running, Runtime
from coatcheck.server.taskless.ticket import describe, line, write_ticket
from coatcheck.task import Status, Task

_LONGEST_WAIT = 50.0
TaskId = Annotated[str, Field(description="The task id from the ticket")]


class TicketTools:
    """Each acts on the caller's own tasks only."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.names: set[str] = set()

    def add_to(self, server: MCPServer[Any], taken: set[str]) -> None:
        """Register those whose names are not taken: the author's own tools come first."""
        for tool, is_read_only in self._all():
            if tool.__name__ not in taken:
                hints = ToolAnnotations(read_only_hint=is_read_only, open_world_hint=False)
                MCPServer.add_tool(server, _readable(tool), annotations=hints, structured_output=False)
                self.names.add(tool.__name__)

    def _all(self) -> Sequence[tuple[Callable[..., Awaitable[CallToolResult]], bool]]:
        return (
            (self.get_task, True),
            (self.wait_task, True),
            (self.answer_task, False),
            (self.cancel_task, False),
            (self.list_tasks, True),
        )

    async def get_task(self, task_id: TaskId, ctx: Context[Any, Any]) -> CallToolResult:
        """Look at a task that a slow tool call became: returns the tool's result if it is done, else how far it is."""
        running, owner = self._caller(ctx)
        return _collected(await running.desk.get(task_id, owner))

    async def wait_task(
        self,
        task_id: TaskId,
        ctx: Context[Any, Any],
        seconds: Annotated[float, Field(ge=0, description="How long to wait at most; 50 is the most")] = 30.0,
    ) -> CallToolResult:
        """Wait for a task that a slow tool call became: returns the tool's result, or how far it is after a while."""
        running, owner = self._caller(ctx)
        task = await running.desk.get(task_id, owner)
        with suppress(Stopping):
            task = await running.vigils.keep(
                ctx.request_context, task, knows_task=False, seconds=min(seconds, _LONGEST_WAIT)
            )
        return _collected(task)

    async def answer_task(
        self,
        task_id: TaskId,
        ctx: Context[Any, Any],
        content: Annotated[
            dict[str, Any] | str | None,
            Field(description="The fields asked for, or text where text is asked for"),
        ] = None,
        action: Annotated[
            Literal["accept", "decline", "cancel"], Field(description="Whether the question was answered at all")
        ] = "accept",
        question: Annotated[str | None, Field(description="Which question, if the ticket shows several")] = None,
    ) -> CallToolResult:
        """Answer the question a task waits for. Then call wait_task for the result."""
        running, owner = self._caller(ctx)
        task = await running.desk.get(task_id, owner)
        if task.status.is_terminal:
            return _collected(task)
        key = open_question(task, question)
        answer = answer_of(task.input_requests[key], action, content)
        return write_ticket(await running.desk.answer(task_id, owner, {key: answer}))

    async def cancel_task(self, task_id: TaskId, ctx: Context[Any, Any]) -> CallToolResult:
        """Stop a task that a slow tool call became. What it has done already is not undone."""
        running, owner = self._caller(ctx)
        try:
            return write_ticket(await running.desk.cancel(task_id, owner))
        except AlreadyFinished:
            task = await running.desk.get(task_id, owner)
            return _error(f"Task {task_id} cannot be cancelled: it is already {v2025.status(task).value}.")

    async def list_tasks(
        self,
        ctx: Context[Any, Any],
        cursor: Annotated[str | None, Field(description="nextCursor of the page before")] = None,
    ) -> CallToolResult:
        """List the tasks that your slow tool calls became, newest first."""
        running, owner = self._caller(ctx)
        if not running.identity.tells_apart(ctx.request_context):
            return _error("This server cannot tell its callers apart, so it lists no tasks; use the ids you have.")
        tasks, following = await page(running.desk, owner, cursor)
        more = {"nextCursor": following} if following else {}
        text = "\n".join(line(task) for task in tasks) or "There are no tasks."
        return CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content={"tasks": [describe(task) for task in tasks], **more},
        )

    def _caller(self, ctx: Context[Any, Any]) -> tuple[Running, str | None]:
        running = self._runtime.running
        return running, running.identity.owner_of(ctx.request_context)


def _readable(tool: Callable[..., Awaitable[CallToolResult]]) -> Callable[..., Awaitable[CallToolResult]]:
    """Turn what is refused into a result that a model can read."""

    @functools.wraps(tool)
    async def readable(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except CoatcheckError as error:
            return _error(protocol_error(error).message)

    return readable


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _collected(task: Task) -> CallToolResult:
    """Return the tool's own result, if it is there; what was read or rendered, as JSON."""
    if task.status is Status.COMPLETED:
        result = v2025.write_result(task)
        if kind_of(task.call.tool) is TOOL:
            return CallToolResult.model_validate(result)
        meta = result.pop("_meta")
        text = TextContent(type="text", text=bytes(encode(result)).decode())
        return CallToolResult(content=[text], structured_content=result, _meta=meta)
    if task.failure:
        return _error(f"Task {task.id} of {task.call.tool} failed: {task.failure.message}")
    if task.status is Status.CANCELLED:
        reason = f": {task.status_message}" if task.status_message else ""
        return _error(f"Task {task.id} of {task.call.tool} was cancelled{reason}")
    return write_ticket(task)
