"""The tools the official conformance suite calls: a task that works, fails, asks and is asked for its name first.

python -m coatcheck serve examples.conformance_server:server --http 127.0.0.1:8000 --store sqlite:///tasks.db
"""

import asyncio
from typing import Annotated

from mcp import MCPError
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp_types import INTERNAL_ERROR
from pydantic import BaseModel

from coatcheck.server import TaskPolicy, TaskServer

OPTIONAL = TaskPolicy("optional", ttl=600, poll_interval=0.1)
REQUIRED = TaskPolicy("required", ttl=600, poll_interval=0.1)

server = TaskServer("conformance", version="1", store="memory://")


class Confirmation(BaseModel):
    confirm: bool


class UserName(BaseModel):
    name: str


@server.tool()
def greet(name: str) -> str:
    """Greet at once: this is never a task."""
    return f"Hello, {name}!"


@server.tool(task=OPTIONAL)
async def slow_compute(seconds: float, ctx: Context, label: str = "") -> str:
    """Take a while."""
    await ctx.report_progress(0, seconds, label)
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds} seconds"


@server.tool(task=REQUIRED)
async def failing_job() -> str:
    """Fail as tools do: the task is completed, with a result that says so."""
    raise ValueError("This job always fails")


@server.tool(task=OPTIONAL)
async def protocol_error_job() -> str:
    """Fail as servers do: the task has failed, with an error instead of a result."""
    raise MCPError(INTERNAL_ERROR, "This job never has a result")


@server.tool(task=OPTIONAL)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask first. Nothing is deleted here."""
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    confirmed = answer.action == "accept" and answer.data.confirm
    return f"{filename} is deleted" if confirmed else f"{filename} is kept"


@server.tool(task=OPTIONAL)
async def multi_input(ctx: Context) -> str:
    """Ask two things at the same time."""
    answers = await asyncio.gather(ctx.elicit("The first?", UserName), ctx.elicit("The second?", UserName))
    return " and ".join(answer.data.name if answer.action == "accept" else "nobody" for answer in answers)


def ask_for_name() -> Elicit[UserName]:
    return Elicit("What is your name?", UserName)


@server.tool(task=REQUIRED)
async def test_tool_with_task(user: Annotated[UserName, Resolve(ask_for_name)]) -> str:
    """Ask before there is a task, then be one."""
    return f"Hello, {user.name}!"


async def main() -> None:
    for tool in await server.list_tools():
        print(f"{tool.name}: {tool.description}")


if __name__ == "__main__":
    asyncio.run(main())
