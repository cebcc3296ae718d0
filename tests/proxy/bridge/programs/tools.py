"""What the servers behind the proxy can do: what they have done stands in a file, and a gate tells when to go on."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ResourceLink, SamplingMessage, TextContent
from pydantic import BaseModel

from tests.client_faults.gate import visit

BEGAN, ENDED, STOPPED = "began", "ended", "stopped"
ECHO_META = {"example.com/mark": {"deep": [1, 2.5, None, "ü"]}}
REFUSED = -32050


class Word(BaseModel):
    value: str


async def echo(word: str) -> CallToolResult:
    """Return at once, with everything a result may have."""
    return CallToolResult(
        content=[
            TextContent(type="text", text=word),
            ResourceLink(type="resource_link", uri="file:///tmp/echo.txt", name="echo"),
        ],
        structured_content={"said": [word, {"empty": None}]},
        _meta=ECHO_META,
    )


async def work(log: str, gate: int) -> str:
    """Begin, wait at the gate, end."""
    _write(log, BEGAN)
    try:
        await visit(gate, BEGAN)
    except asyncio.CancelledError:
        _write(log, STOPPED)
        await asyncio.shield(visit(gate, STOPPED))
        raise
    _write(log, ENDED)
    return "The work is done"


async def fail(gate: int) -> CallToolResult:
    await visit(gate, BEGAN)
    return CallToolResult(content=[TextContent(type="text", text="It went wrong")], is_error=True)


async def refuse(gate: int) -> str:
    await visit(gate, BEGAN)
    raise MCPError(code=REFUSED, message="It is refused", data={"why": ["it was made so"]})


async def interview(log: str, gate: int, questions: list[str], ctx: Context[Any, Any]) -> str:
    """Ask one question after the other, and return the answers."""
    _write(log, BEGAN)
    await visit(gate, BEGAN)
    answers: list[str] = []
    for question in questions:
        answer = await ctx.elicit(question, Word)
        answers.append(answer.data.value if answer.action == "accept" else answer.action)
    _write(log, ENDED)
    return " and ".join(answers)


async def sample(ctx: Context[Any, Any]) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))
    said = await ctx.session.create_message([message], max_tokens=10)  # pyright: ignore[reportDeprecated]
    assert isinstance(said.content, TextContent)
    return f"It said: {said.content.text}"


async def look_around(ctx: Context[Any, Any]) -> str:
    found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
    return f"There is {', '.join(str(root.uri) for root in found.roots)}"


def first_word(first: str) -> Elicit[Word]:
    return Elicit(first, Word)


def second_word(second: str, before: Annotated[Word, Resolve(first_word)]) -> Elicit[Word]:
    return Elicit(f"{second} ({before.value})", Word)


async def rounds(
    first: str, second: str, one: Annotated[Word, Resolve(first_word)], two: Annotated[Word, Resolve(second_word)]
) -> str:
    """Ask two questions, the second made of the first one's answer, before it begins."""
    return f"{one.value} and {two.value}"


TOOLS = (echo, work, fail, refuse, interview, sample, look_around)


def _write(log: str, word: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{word} {os.getpid()}\n".encode())
    finally:
        os.close(descriptor)
