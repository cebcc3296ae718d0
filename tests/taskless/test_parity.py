"""A call that is done in time is answered as the SDK alone would have answered it, and so is everything on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import CallToolResult, ImageContent, LoggingLevel, TextContent
from pydantic import BaseModel

from coatcheck.server import TaskServer
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, DECLINE, Asker, Name, guarded
from tests.v2025.wire import NEW, OLD, OLDER, PROGRESS, VERSION, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio


LOGS: tuple[tuple[LoggingLevel, str], ...] = (("info", "Hello"), ("debug", "Details"), ("warning", "Careful"))


class Point(BaseModel):
    x: int
    y: int | None = None


class Line(BaseModel):
    points: list[Point]


async def add(a: int, b: int = 1) -> int:
    return a + b


async def draw() -> Line:
    return Line(points=[Point(x=1), Point(x=2, y=3)])


async def nothing() -> None: ...


async def show() -> list[Any]:
    return [ImageContent(data="AA==", mime_type="image/png"), "caf\u00e9", {"a": None}]


async def whole() -> CallToolResult:
    return CallToolResult(content=[TextContent(text="all")], structured_content={"a": [None]}, _meta={"own": {"k": 1}})


async def complain() -> CallToolResult:
    return CallToolResult(content=[TextContent(text="broken")], structured_content={"why": 7}, is_error=True)


async def crash() -> str:
    raise ValueError("a secret")


async def say_no() -> str:
    raise ToolError("No, said the tool")


async def refuse() -> str:
    raise MCPError(-32050, "Too fast", {"retry": [1, None]})


async def talk(ctx: Asker) -> str:
    for level, text in LOGS:
        with pytest.warns(MCPDeprecationWarning):
            await ctx.log(level, text)  # pyright: ignore[reportDeprecated]
    return "talked"


async def count(ctx: Asker) -> str:
    for done, total, message in ((1, 3, "One"), (2.5, 3, None), (3, None, "All")):
        await ctx.report_progress(done, total, message)
    return "counted"


async def ask(ctx: Asker) -> str:
    answer = await ctx.elicit("Who?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


async def announce(ctx: Asker) -> str:
    await ctx.session.send_tool_list_changed()
    return "announced"


async def look(ctx: Asker) -> str:
    request = ctx.request_context.request
    return "nothing" if request is None else request.headers["host"]


CALLS: dict[str, dict[str, Any]] = {
    "a number": {"name": "add", "arguments": {"a": 1}},
    "a model": {"name": "draw"},
    "nothing": {"name": "nothing"},
    "several blocks": {"name": "show"},
    "a whole result": {"name": "whole"},
    "a reported error": {"name": "complain"},
    "an exception": {"name": "crash"},
    "a tool's own error": {"name": "say_no"},
    "a protocol error": {"name": "refuse"},
    "wrong arguments": {"name": "add", "arguments": {"a": "one"}},
    "missing arguments": {"name": "add", "arguments": {}},
    "no such tool": {"name": "nowhere"},
}
QUICK = (add, draw, nothing, show, whole, complain, crash, say_no, refuse)
FUNCTIONS = {one.__name__: one for one in (*QUICK, talk, count, ask, announce, look)}


@asynccontextmanager
async def twins(transport: Transport, version: str, *tools: str) -> AsyncGenerator[tuple[Talk, Talk]]:
    """Connect the same client to a server with tasks and to the SDK alone, with the same tools."""
    server = TaskServer("test", version="1", store="memory://", grace=0.01)
    bare = MCPServer[Any]("test", version="1")
    for tool in tools:
        server.add_tool(FUNCTIONS[tool], task=True)
        bare.add_tool(FUNCTIONS[tool])
    async with served(server, transport) as place, served(bare, transport) as other:
        yield await place.connect(transport, version=version), await other.connect(transport, version=version)


async def heard_by(caller: Talk, call: dict[str, Any]) -> list[tuple[dict[str, Any], bool | None]]:
    """Make a call, and return what came before its answer, and whether on the stream of the call."""
    pending = caller.begin("tools/call", call)
    await pending.answer()
    await caller.ask("ping") if caller.client.version != NEW else None
    return [(heard.message, None if heard.stream is None else heard.stream == pending.id) for heard in caller.heard]


# Results


@requirement("X-11", "F-006", "R-03")
@pytest.mark.parametrize("version", [OLDER, OLD, VERSION, NEW])
async def test_the_answer_is_the_one_the_sdk_gives(transport: Transport, version: str) -> None:
    async with twins(transport, version, *(one.__name__ for one in QUICK)) as (ours, theirs):
        for what, call in CALLS.items():
            answer = await ours.request("tools/call", call)
            assert answer == await theirs.request("tools/call", call), what


@requirement("X-11", "F-002")
async def test_a_call_that_was_answered_leaves_no_task_behind(version: str) -> None:
    server = TaskServer("test", store="memory://")
    for function in (add, complain, refuse):
        server.add_tool(function, task=True)
    async with served(server) as place:
        caller = await place.memory(version)
        for call in ({"name": "add", "arguments": {"a": 1}}, {"name": "complain"}, {"name": "refuse"}):
            await caller.request("tools/call", call)
        listed = await caller.use("list_tasks")
    assert listed["structuredContent"] == {"tasks": []}


# What comes on the way


@requirement("X-13")
async def test_progress_of_the_tool_is_passed_on_as_it_is(transport: Transport, version: str) -> None:
    call = {"name": "count", "arguments": {}, "_meta": {"progressToken": "a"}}
    async with twins(transport, version, "count") as (ours, theirs):
        assert await heard_by(ours, call) == await heard_by(theirs, call)
        if transport != "json":
            assert [heard.params["progress"] for heard in ours.all_told(PROGRESS)] == [1, 2.5, 3]


@requirement("X-13")
async def test_without_a_token_no_progress_is_passed_on(transport: Transport, version: str) -> None:
    async with twins(transport, version, "count") as (ours, _):
        assert await heard_by(ours, {"name": "count", "arguments": {}}) == []


@requirement("X-11")
@pytest.mark.parametrize("level", [None, "info"])
async def test_logs_of_the_tool_are_passed_on_as_they_are(
    transport: Transport, version: str, level: str | None
) -> None:
    meta = {} if level is None else {"_meta": {"io.modelcontextprotocol/logLevel": level}}
    call = {"name": "talk", "arguments": {}, **meta}
    async with twins(transport, version, "talk") as (ours, theirs):
        assert await heard_by(ours, call) == await heard_by(theirs, call)


@requirement("X-11")
@pytest.mark.parametrize("answer", [ANN, DECLINE, {"action": "perhaps"}], ids=["accept", "decline", "nonsense"])
@pytest.mark.parametrize("version", [OLD, VERSION])
async def test_a_question_is_put_on_the_stream_of_the_call_as_the_sdk_does_it(
    version: str, answer: dict[str, Any]
) -> None:
    async with twins("sse", version, "ask") as (ours, theirs):
        seen: list[Any] = []
        for caller in (ours, theirs):
            call = caller.begin("tools/call", {"name": "ask", "arguments": {}})
            question = await caller.question()
            assert question.stream == call.id
            await caller.reply(question, answer)
            result = await call.answer()
            seen.append((question.params, result))
        assert seen[0] == seen[1]


@requirement("X-11")
async def test_an_error_for_an_answer_is_the_error_the_sdk_makes_of_it() -> None:
    async with twins("sse", VERSION, "ask") as (ours, theirs):
        answers: list[Any] = []
        for caller in (ours, theirs):
            call = caller.begin("tools/call", {"name": "ask", "arguments": {}})
            await caller.refuse(await caller.question(), code=-1, message="User rejected", data={"why": 7})
            answers.append(await call.answer())
        assert answers[0] == answers[1]


@requirement("X-11")
@pytest.mark.parametrize("transport", ["sse", "json"])
async def test_what_the_tool_tells_of_the_server_comes_on_the_standing_stream(transport: Transport) -> None:
    call: dict[str, Any] = {"name": "announce", "arguments": {}}
    async with twins(transport, VERSION, "announce") as (ours, theirs):
        (expected,) = await heard_by(theirs, call)
        (got,) = await heard_by(ours, call)
        assert (got[0]["method"], got[1]) == (expected[0]["method"], expected[1])


@requirement("X-11")
async def test_a_tool_may_look_at_the_request_it_is_called_in(version: str) -> None:
    async with twins("sse", version, "look") as (ours, theirs):
        answer = await ours.request("tools/call", {"name": "look", "arguments": {}})
        assert answer == await theirs.request("tools/call", {"name": "look", "arguments": {}})


@requirement("X-11")
async def test_a_tool_may_ask_who_is_calling_it(version: str) -> None:
    bench = guarded("plain")

    async def whose() -> str:
        token = get_access_token()
        return "nobody" if token is None else str(token.subject)

    bench.server.add_tool(whose, "held", task=True)
    bench.server.add_tool(whose, "called", task=False)
    async with served(bench.server) as place:
        caller = await place.http(version, token="ann")
        assert text_of(await caller.use("called")) == "ann"
        assert text_of(await caller.use("held")) == "ann"
