"""The server that is called in these tests: tools that take their time, and tools that ask."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ImageContent, SamplingMessage, TextContent

from coatcheck.server import TaskContext, TaskPolicy, TaskServer

QUICK = TaskPolicy("optional", poll_interval=0.05)
HOLDING = "Holding"
LOOK_SECONDS = 0.02
SIGN_IN = "https://example.org/sign-in?for=you"

server = TaskServer("terminal", version="1", task=QUICK, grace=0.2)


def form(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


ORDER = form(
    required=["name", "email", "pages", "loud", "colour", "days"],
    name={"type": "string", "title": "Name", "minLength": 2, "maxLength": 20, "description": "Who it is for."},
    email={"type": "string", "title": "E-mail", "format": "email"},
    site={"type": "string", "title": "Site", "format": "uri"},
    day={"type": "string", "title": "Day", "format": "date"},
    at={"type": "string", "title": "At", "format": "date-time"},
    pages={"type": "integer", "title": "Pages", "minimum": 1, "maximum": 10, "default": 3},
    price={"type": "number", "title": "Price", "minimum": 0},
    loud={"type": "boolean", "title": "Loud"},
    colour={"type": "string", "title": "Colour", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    size={
        "type": "string",
        "title": "Size",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    days={"type": "array", "title": "Days", "items": {"type": "string", "enum": ["mon", "tue", "wed"]}, "minItems": 1},
)


@server.tool(task=False)
def add(a: int, b: int = 1, tags: list[str] | None = None) -> int:
    """Add two numbers, at once."""
    return a + b


@server.tool(task=False)
async def slow_plain(ctx: Context) -> str:
    """Never end, and be no task either."""
    await ctx.report_progress(1, 10, HOLDING)
    await asyncio.Event().wait()
    return ""


@server.tool(task=False)
async def picture() -> CallToolResult:
    """Return more than text."""
    image = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    return CallToolResult(content=[TextContent(type="text", text="\x1b[31mA picture:"), image])


@server.tool()
async def steps(count: int, ctx: Context, gate: str = "") -> str:
    """Count, and tell how far; no further than the number in the file `gate`, if there is one."""
    for number in range(1, count + 1):
        while gate and _allowed(Path(gate)) < number:
            await _pause()
        await ctx.report_progress(number, count, f"Step {number}")
    return f"{count} steps"


def _allowed(gate: Path) -> int:
    return int(gate.read_text())


async def _pause() -> None:
    await asyncio.sleep(LOOK_SECONDS)


@server.tool()
async def hold(task: TaskContext) -> None:
    """Never end."""
    await task.note(HOLDING)
    await asyncio.Event().wait()


@server.tool()
async def fail(why: str = "It broke") -> str:
    """Fail as tools do."""
    raise ToolError(why)


@server.tool()
async def refuse() -> str:
    """Fail as the protocol does."""
    raise MCPError(-32050, "No such thing", {"what": "thing"})


@server.tool(task=TaskPolicy("optional", resumable=True, poll_interval=0.05))
async def order(task: TaskContext) -> str:
    """Ask for everything there is to ask for."""
    return json.dumps(await task.elicit("What will it be?", ORDER))


@server.tool()
async def approve(task: TaskContext, version: str = "2.1") -> str:
    """Ask one thing."""
    answer = await task.elicit(f"Deploy {version}?", form(approved={"type": "boolean", "title": "Approved"}))
    return json.dumps(answer)


@server.tool()
async def two(task: TaskContext) -> str:
    """Ask two things at once."""
    field = {"type": "string", "title": "Word"}
    answers = await asyncio.gather(task.elicit("First?", form(word=field)), task.elicit("Second?", form(word=field)))
    return json.dumps(answers)


@server.tool()
async def sign_in(ctx: Context) -> str:
    """Send the person somewhere."""
    return (await ctx.elicit_url("Please sign in.", SIGN_IN, "one")).action


@server.tool()
async def think(ctx: Context) -> str:
    """Ask a model."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is the answer?"))
    said = await ctx.session.create_message([question], max_tokens=100)  # pyright: ignore[reportDeprecated]
    return f"{said.model}: {said.content.text}" if isinstance(said.content, TextContent) else said.model


@server.tool()
async def withdrawn(task: TaskContext) -> str:
    """Ask, and then not want to know any more."""
    asking = asyncio.create_task(task.elicit("Still there?", form(word={"type": "string"})))
    try:
        await asyncio.wait_for(asking, 1)
    except TimeoutError:
        return "Never mind"
    return "Answered"
