"""A server on the Python SDK 1.x with its experimental tasks: `stdio`, or `http` and a port."""
# It runs where SDK 1.x is installed; here there is 2.x, which has other names.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportUnknownParameterType=false, reportDeprecated=false
# pyright: reportMissingTypeArgument=false, reportUnknownLambdaType=false, reportOptionalSubscript=false

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import uvicorn
from mcp import McpError, types
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount, Route

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
NOTHING = {"type": "object"}

server: Server = Server("sdk-v1")
server.experimental.enable_tasks()


async def add(task: ServerTaskContext, a: int, b: int) -> types.CallToolResult:
    return text(a + b)


async def slow(task: ServerTaskContext, seconds: float) -> types.CallToolResult:
    """Say how far it is, ten times. To be cancelled is for the tool to notice: the SDK does not tell it."""
    for step in range(10):
        await task.update_status(f"Step {step + 1} of 10")
        await asyncio.sleep(seconds / 10)
    return text(f"It took {seconds} seconds")


async def silent(task: ServerTaskContext, seconds: float) -> types.CallToolResult:
    await asyncio.sleep(seconds)
    return text(f"It took {seconds} seconds")


async def ask(task: ServerTaskContext) -> types.CallToolResult:
    return text(told(await task.elicit("What is your name?", NAME)))


async def ask_again(task: ServerTaskContext) -> types.CallToolResult:
    first = await task.elicit("The first?", NAME)
    second = await task.elicit("The second?", NAME)
    return text(f"{told(first)} and {told(second)}")


async def sample(task: ServerTaskContext) -> types.CallToolResult:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say something"))
    return text(f"It said: {(await task.create_message([said], max_tokens=10)).content.text}")


async def fail(task: ServerTaskContext) -> types.CallToolResult:
    raise ValueError("This tool always fails")


async def report_failure(task: ServerTaskContext) -> types.CallToolResult:
    """Complete, with a result that says it failed."""
    return types.CallToolResult(content=text("This tool always fails").content, isError=True)


async def break_protocol(task: ServerTaskContext) -> types.CallToolResult:
    raise McpError(types.ErrorData(code=-32050, message="This tool never has a result"))


async def only_as_task(task: ServerTaskContext) -> types.CallToolResult:
    return text("Yes")


TASKS = {
    "add": (add, NUMBERS, "optional"),
    "slow": (slow, SECONDS, "optional"),
    "silent": (silent, SECONDS, "optional"),
    "ask": (ask, NOTHING, "optional"),
    "ask_again": (ask_again, NOTHING, "optional"),
    "sample": (sample, NOTHING, "optional"),
    "fail": (fail, NOTHING, "optional"),
    "report_failure": (report_failure, NOTHING, "optional"),
    "break_protocol": (break_protocol, NOTHING, "optional"),
    "only_as_task": (only_as_task, NOTHING, "required"),
}


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    tasks = [
        types.Tool(name=name, inputSchema=schema, execution=types.ToolExecution(taskSupport=support))
        for name, (_, schema, support) in TASKS.items()
    ]
    return [*tasks, types.Tool(name="plain", inputSchema=NOTHING)]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult | types.CreateTaskResult:
    context = server.request_context
    if name == "plain":
        context.experimental.validate_task_mode("forbidden")
        return text(arguments.get("text", "nothing"))
    if name not in TASKS:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=f"Unknown tool: {name}"))
    body, _, support = TASKS[name]
    context.experimental.validate_task_mode(support)
    if not context.experimental.is_task:
        return text(f"{name} without a task")
    return await context.experimental.run_task(lambda task: body(task, **arguments))


def text(value: object) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))])


def told(answer: types.ElicitResult) -> str:
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else f"They chose to {answer.action}"


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(port: int) -> None:
    manager = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        async with manager.run():
            yield

    class Endpoint:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await manager.handle_request(scope, receive, send)

    # A mount answers only below itself, and sends whoever asks for /mounted on to /mounted/.
    routes = [Route("/mcp", Endpoint()), Mount("/mounted", Endpoint())]
    app = Starlette(routes=routes, lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    if sys.argv[1] == "http":
        over_http(int(sys.argv[2]))
    else:
        asyncio.run(over_stdio())
