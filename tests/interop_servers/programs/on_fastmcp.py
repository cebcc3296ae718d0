"""A server on FastMCP with its tasks: `stdio`, or `http` and a port; then where its tasks are kept."""
# It runs where FastMCP is installed; here it is not.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportUnknownParameterType=false

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.dependencies import Progress
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp.shared.exceptions import MCPError

OFTEN = TaskConfig(mode="optional", poll_interval=timedelta(milliseconds=100))
ONLY = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))

server = FastMCP("fastmcp")


@server.tool(task=OFTEN)
async def add(a: int, b: int) -> int:
    return a + b


@server.tool(task=OFTEN)
async def slow(seconds: float, progress: Progress = Progress()) -> str:
    """Say how far it is, ten times."""
    await progress.set_total(10)
    for step in range(10):
        await progress.set_message(f"Step {step + 1} of 10")
        await progress.increment()
        await asyncio.sleep(seconds / 10)
    return f"It took {seconds} seconds"


@server.tool(task=OFTEN)
async def silent(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"It took {seconds} seconds"


@server.tool(task=OFTEN)
async def ask(ctx: Context) -> str | types.InputRequiredResult:
    if not ctx.input_responses:
        return types.InputRequiredResult(input_requests={"name": elicitation("What is your name?")})
    return told(ctx.input_responses["name"])


@server.tool(task=OFTEN)
async def ask_twice(ctx: Context) -> str | types.InputRequiredResult:
    """Ask two questions at once."""
    questions: types.InputRequests = {"first": elicitation("The first?"), "second": elicitation("The second?")}
    if not ctx.input_responses:
        return types.InputRequiredResult(input_requests=questions)
    return " and ".join(told(ctx.input_responses[key]) for key in questions)


@server.tool(task=OFTEN)
async def ask_again(ctx: Context) -> str | types.InputRequiredResult:
    """Ask, and ask once more when that is answered. FastMCP gives the answers of the last round only."""
    if not ctx.input_responses:
        return types.InputRequiredResult(input_requests={"first": elicitation("The first?")})
    if ctx.request_state is None:
        state = told(ctx.input_responses["first"])
        return types.InputRequiredResult(input_requests={"second": elicitation("The second?")}, request_state=state)
    return f"{ctx.request_state} and {told(ctx.input_responses['second'])}"


@server.tool(task=OFTEN)
async def sample(ctx: Context) -> str | types.InputRequiredResult:
    if not ctx.input_responses:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say something"))
        params = types.CreateMessageRequestParams(messages=[message], max_tokens=10)
        return types.InputRequiredResult(input_requests={"said": types.CreateMessageRequest(params=params)})
    return f"It said: {ctx.input_responses['said'].content.text}"


@server.tool(task=OFTEN)
async def fail() -> str:
    raise ToolError("This tool always fails")


@server.tool(task=OFTEN)
async def break_protocol() -> str:
    raise MCPError(code=-32050, message="This tool never has a result", data={"why": "it was made so"})


@server.tool(task=ONLY)
async def only_as_task() -> str:
    return "Yes"


@server.tool(task=True)
async def unhurried() -> str:
    """Be polled as FastMCP would have it: every five seconds."""
    return "Done"


@server.tool
async def plain(text: str) -> str:
    return text


def elicitation(message: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def told(answer: Any) -> str:
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else f"They chose to {answer.action}"


if __name__ == "__main__":
    transport, port, store = sys.argv[1:]
    # A task whose server died is begun again after a second, not after five minutes.
    server.add_extension(TasksExtension(url=store, redelivery_timeout=timedelta(seconds=1)))
    if transport == "http":
        server.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="warning")
    else:
        server.run(transport="stdio", show_banner=False, log_level="warning")
