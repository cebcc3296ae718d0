"""The tasks of the Python SDK 1.x, against a server: its URL, or the command of one that speaks stdio.

Prints a line of JSON for each scenario: what the client saw, or what went wrong.
"""
# It runs where SDK 1.x is installed; here there is 2.x, which has other names.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportUnknownLambdaType=false, reportOptionalMemberAccess=false
# pyright: reportMissingTypeArgument=false, reportUntypedBaseClass=false, reportDeprecated=false

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore

RELATED = "io.modelcontextprotocol/related-task"
PATIENCE = 20
TTL = 60_000


def related(thing: Any) -> str | None:
    """Return the task that a result or the parameters of a message belong to, by their `_meta`."""
    meta = thing.meta
    found = (meta if isinstance(meta, dict) else meta.model_dump() if meta else {}).get(RELATED)
    return found and found["taskId"]


def error_of(error: McpError) -> dict[str, Any]:
    return {"code": error.error.code, "message": error.error.message, "data": error.error.data}


async def refusal(call: Awaitable[Any]) -> dict[str, Any] | None:
    """Return the error that a request is answered with."""
    try:
        await call
    except McpError as error:
        return error_of(error)
    return None


class Heard:
    """What the server said unasked, and the questions it asked."""

    def __init__(self) -> None:
        self.notifications: list[Any] = []
        self.questions: list[dict[str, Any]] = []
        self.reply: Any = None
        """What an elicitation is answered with, if not with what was asked."""
        self._news = asyncio.Condition()

    async def note(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            async with self._news:
                self.notifications.append(message.root)
                self._news.notify_all()

    async def until(self, task_id: str, status: str) -> list[str]:
        """Return the statuses a task was said to have, without repetitions, once the last of them was said."""
        async with self._news:
            await self._news.wait_for(lambda: status in self._statuses(task_id))
            return [key for key, _ in groupby(self._statuses(task_id))]

    def _statuses(self, task_id: str) -> list[str]:
        said = (note.params for note in self.notifications if note.method == "notifications/tasks/status")
        return [params.status for params in said if params.taskId == task_id]

    async def elicited(self, _: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        self._ask("elicitation/create", params, params.message)
        return self.reply or types.ElicitResult(action="accept", content={"name": f"asked {params.message}"})

    async def sampled(self, _: Any, params: Any) -> types.CreateMessageResult:
        self._ask("sampling/createMessage", params, params.messages[0].content.text)
        return types.CreateMessageResult(role="assistant", model="none", content=text_block("Something"))

    def _ask(self, method: str, params: Any, message: str) -> None:
        self.questions.append({"method": method, "message": message, "task": related(params)})


def text_block(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


class Receiver:
    """A client whose answers are tasks themselves, kept where the SDK keeps them."""

    def __init__(self, heard: Heard) -> None:
        self.requests: list[str] = []
        self.ttls: list[Any] = []
        self._heard = heard
        self._store = InMemoryTaskStore()
        self._answering: set[asyncio.Task[None]] = set()

    def handlers(self) -> ExperimentalTaskHandlers:
        return ExperimentalTaskHandlers(
            augmented_elicitation=self._elicited,
            augmented_sampling=self._sampled,
            get_task=self._get,
            get_task_result=self._result,
        )

    async def _elicited(self, context: Any, params: Any, metadata: Any) -> types.CreateTaskResult:
        return await self._start("elicitation/create", metadata, self._heard.elicited(context, params))

    async def _sampled(self, context: Any, params: Any, metadata: Any) -> types.CreateTaskResult:
        return await self._start("sampling/createMessage", metadata, self._heard.sampled(context, params))

    async def _start(self, method: str, metadata: Any, answer: Awaitable[Any]) -> types.CreateTaskResult:
        self.requests.append(method)
        self.ttls.append(metadata.ttl)
        task = await self._store.create_task(metadata)
        answering = asyncio.create_task(self._finish(task.taskId, answer))
        self._answering.add(answering)
        return types.CreateTaskResult(task=task)

    async def _finish(self, task_id: str, answer: Awaitable[Any]) -> None:
        await self._store.store_result(task_id, await answer)
        await self._store.update_task(task_id, status="completed")

    async def _get(self, _: Any, params: Any) -> types.GetTaskResult:
        self.requests.append("tasks/get")
        return types.GetTaskResult(**(await self._store.get_task(params.taskId)).model_dump())

    async def _result(self, _: Any, params: Any) -> types.GetTaskPayloadResult:
        self.requests.append("tasks/result")
        result = await self._store.get_result(params.taskId)
        return types.GetTaskPayloadResult(**result.model_dump(by_alias=True, exclude_none=True))


class Scenarios:
    """What the client does, each method once."""

    def __init__(self, session: ClientSession, greeting: types.InitializeResult, heard: Heard) -> None:
        self._session = session
        self._tasks = session.experimental
        self._greeting = greeting
        self._heard = heard

    async def _hand_in(self, tool: str, /, **arguments: Any) -> str:
        return (await self._tasks.call_tool_as_task(tool, arguments, ttl=TTL)).task.taskId

    async def _result(self, task_id: str) -> dict[str, Any]:
        result = await self._tasks.get_task_result(task_id, types.CallToolResult)
        return {
            "text": result.content[0].text,
            "structured": result.structuredContent,
            "isError": result.isError,
            "ofTask": related(result) == task_id,
        }

    async def _poll(self, task_id: str) -> list[str]:
        """Return the statuses until the task waits for an answer or is over, the last of them first."""
        statuses: list[str] = []
        async for task in self._tasks.poll_task(task_id):
            statuses.insert(0, task.status)
            if task.status == "input_required":
                break
        return statuses

    async def initialized(self) -> dict[str, Any]:
        tasks = self._greeting.capabilities.tasks
        return {
            "version": self._greeting.protocolVersion,
            "tasks": tasks and tasks.model_dump(by_alias=True, exclude_none=True),
        }

    async def offered(self) -> dict[str, Any]:
        tools = (await self._session.list_tools()).tools
        return {tool.name: tool.execution.taskSupport for tool in tools if tool.execution}

    async def created(self) -> dict[str, Any]:
        created = await self._tasks.call_tool_as_task("add", {"a": 2, "b": 3}, ttl=TTL)
        return {**created.task.model_dump(mode="json", exclude_none=True), "meta": created.meta}

    async def completed(self) -> dict[str, Any]:
        task_id = await self._hand_in("add", a=2, b=3)
        polled = await self._poll(task_id)
        return {"last": polled[0], "result": await self._result(task_id), "again": await self._result(task_id)}

    async def awaited(self) -> dict[str, Any]:
        """Do not poll, but let `tasks/result` wait."""
        task_id = await self._hand_in("slow", seconds=0.5)
        return {"result": await self._result(task_id), "status": (await self._tasks.get_task(task_id)).status}

    async def _answered(self, tool: str) -> dict[str, Any]:
        asked = len(self._heard.questions)
        task_id = await self._hand_in(tool)
        polled = await self._poll(task_id)
        result = await self._result(task_id)
        questions = [{**question, "task": question["task"] == task_id} for question in self._heard.questions[asked:]]
        return {"asking": polled[0], "questions": questions, "result": result}

    async def elicited(self) -> dict[str, Any]:
        return await self._answered("ask")

    async def elicited_twice(self) -> dict[str, Any]:
        return await self._answered("ask_twice")

    async def sampled(self) -> dict[str, Any]:
        return await self._answered("sample")

    async def declined(self) -> dict[str, Any]:
        self._heard.reply = types.ElicitResult(action="decline")
        try:
            return {"text": (await self._result(await self._hand_in("ask")))["text"]}
        finally:
            self._heard.reply = None

    async def unanswered(self) -> dict[str, Any]:
        """Answer with an error, in a task and in a plain call."""
        self._heard.reply = types.ErrorData(code=-32055, message="Nobody is here")
        try:
            errors = {
                "task": await refusal(self._result(await self._hand_in("ask"))),
                "plain": await refusal(self._session.call_tool("ask", {})),
            }
        finally:
            self._heard.reply = None
        return {case: error and [error["code"], error["message"]] for case, error in errors.items()}

    async def failed(self) -> dict[str, Any]:
        task_id = await self._hand_in("fails")
        await self._poll(task_id)
        task = await self._tasks.get_task(task_id)
        return {"status": task.status, "message": task.statusMessage, "result": await self._result(task_id)}

    async def broken(self) -> dict[str, Any]:
        task_id = await self._hand_in("protocol_error")
        polled = await self._poll(task_id)
        errors = [await refusal(self._result(task_id)) for _ in range(2)]
        for error in errors:
            if error and RELATED in error["data"].get("_meta", {}):
                error["data"]["_meta"] = error["data"]["_meta"][RELATED]["taskId"] == task_id
        return {"status": polled[0], "error": errors[0], "again": errors[1]}

    async def listed(self) -> dict[str, Any]:
        handed_in = [await self._hand_in("add", a=number, b=0) for number in range(3)]
        page = await self._tasks.list_tasks()
        found = [task.taskId for task in page.tasks]
        return {"newest": [handed_in.index(task_id) for task_id in found[:3]], "hasMore": page.nextCursor is not None}

    async def cancelled(self) -> dict[str, Any]:
        task_id = await self._hand_in("slow", seconds=600)
        cancelled = await self._tasks.cancel_task(task_id)
        return {
            "answer": cancelled.status,
            "later": (await self._tasks.get_task(task_id)).status,
            "result": await refusal(self._result(task_id)),
            "again": await refusal(self._tasks.cancel_task(task_id)),
        }

    async def unknown(self) -> dict[str, Any]:
        return {
            "get": await refusal(self._tasks.get_task("nobody's")),
            "result": await refusal(self._result("nobody's")),
            "cancel": await refusal(self._tasks.cancel_task("nobody's")),
        }

    async def refused(self) -> dict[str, Any]:
        return {
            "required": await refusal(self._session.call_tool("only_as_task", {"word": "no"})),
            "forbidden": await refusal(self._hand_in("greet", name="Ada")),
        }

    async def required(self) -> dict[str, Any]:
        return {"result": await self._result(await self._hand_in("only_as_task", word="yes"))}

    async def notified(self) -> dict[str, Any]:
        task_id = await self._hand_in("ask")
        asking = await self._heard.until(task_id, "input_required")
        await self._result(task_id)
        return {"before": asking, "after": await self._heard.until(task_id, "completed")}

    async def progressed(self) -> dict[str, Any]:
        meta = {"progressToken": "the token"}
        created = await self._tasks.call_tool_as_task("slow", {"seconds": 0.6}, ttl=TTL, meta=meta)
        task_id = created.task.taskId
        await self._heard.until(task_id, "completed")
        said = [note.params for note in self._heard.notifications if note.method == "notifications/progress"]
        mine = [params for params in said if params.progressToken == "the token"]
        return {
            "progress": [params.progress for params in mine],
            "ofTask": {related(params) == task_id for params in mine} == {True},
        }

    async def held(self) -> dict[str, Any]:
        """Call without asking for tasks."""
        asked = len(self._heard.questions)
        added = await self._session.call_tool("add", {"a": 2, "b": 3})
        answered = await self._session.call_tool("ask", {})
        return {
            "added": added.structuredContent,
            "ofTask": related(added) is not None,
            "answered": answered.content[0].text,
            "questions": len(self._heard.questions) - asked,
        }

    def all(self) -> dict[str, Callable[[], Awaitable[dict[str, Any]]]]:
        return {name: getattr(self, name) for name in vars(Scenarios) if not name.startswith("_") and name != "all"}


async def report(scenario: str, seen: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            found = await seen()
    except Exception as error:  # so that the others are seen nevertheless
        found = {"wrong": repr(error)}
    print(json.dumps({"scenario": scenario, **found}), flush=True)


@asynccontextmanager
async def connected(target: list[str], heard: Heard, receiver: Receiver | None = None) -> AsyncGenerator[Any]:
    if target[0].startswith("http"):
        transport = streamable_http_client(target[0])
    else:
        transport = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with (
        transport as (reading, writing, *_),
        ClientSession(
            reading,
            writing,
            elicitation_callback=heard.elicited,
            sampling_callback=heard.sampled,
            message_handler=heard.note,
            experimental_task_handlers=receiver and receiver.handlers(),
        ) as session,
    ):
        yield session


async def receive(session: ClientSession, receiver: Receiver, heard: Heard, tool: str) -> dict[str, Any]:
    """Answer the question of a tool with a task of the client's own."""
    before = len(receiver.requests), len(heard.questions)
    created = await session.experimental.call_tool_as_task(tool, {}, ttl=TTL)
    result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
    (question,) = heard.questions[before[1] :]
    return {
        "text": result.content[0].text,
        "requests": [key for key, _ in groupby(receiver.requests[before[0] :])],
        "ttl": type(receiver.ttls[-1]).__name__,
        "ofTask": question["task"] == created.task.taskId,
    }


async def main(target: list[str]) -> None:
    heard = Heard()
    async with connected(target, heard) as session:
        scenarios = Scenarios(session, await session.initialize(), heard)
        for name, scenario in scenarios.all().items():
            await report(name, scenario)
    heard = Heard()
    receiver = Receiver(heard)
    async with connected(target, heard, receiver) as session:
        await session.initialize()
        await report("received_elicitation", lambda: receive(session, receiver, heard, "ask"))
        await report("received_sampling", lambda: receive(session, receiver, heard, "sample"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
