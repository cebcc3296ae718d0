"""The SDK's own Context, inside a task as in a plain call: it asks, reports and reads the same way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel

from coatcheck.server import TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import PROGRESS, TASKS, in_memory, over_http

pytestmark = pytest.mark.anyio


class Name(BaseModel):
    name: str


@requirement("R-20")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"action": "accept", "content": {"name": "Ann"}}, "Ann"),
        ({"action": "decline"}, "decline"),
        ({"action": "cancel"}, "cancel"),
        ({"action": "decline", "content": None}, "decline"),
    ],
    ids=str,
)
async def test_elicit_returns_what_the_person_chose(
    server: TaskServer, connect: Connect, answer: dict[str, Any], said: str
) -> None:
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        (key,) = (await caller.asked(task_id))["inputRequests"]
        await caller.update(task_id, {key: answer})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == said


@requirement("R-20")
async def test_elicit_url_sends_a_person_somewhere(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit_url("Please pay", "https://pay.example/1", "payment-1")).action

    async with connect(server) as caller:
        task_id = await caller.hand_in("pay")
        ((key, request),) = (await caller.asked(task_id))["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert (request["params"]["mode"], request["params"]["url"]) == ("url", "https://pay.example/1")
        await caller.update(task_id, {key: {"action": "accept"}})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "accept"


@requirement("ER-4")
async def test_an_answer_to_elicit_url_must_be_one_of_three(server: TaskServer) -> None:
    @server.tool(task=True)
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit_url("Please pay", "https://pay.example/1", "payment-1")).action

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("pay")
        (key,) = (await caller.asked(task_id))["inputRequests"]
        with pytest.raises(MCPError) as refused:
            await caller.update(task_id, {key: {"action": "perhaps"}})
    assert refused.value.code == -32602


@requirement("R-20")
async def test_sampling_asks_the_model_of_the_caller(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def think(ctx: Context) -> str:
        asked = [types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Why?"))]
        with pytest.warns(MCPDeprecationWarning):
            answer = await ctx.session.create_message(asked, max_tokens=5)  # pyright: ignore[reportDeprecated]
        assert isinstance(answer.content, types.TextContent)
        return answer.content.text

    reply = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Because"}}
    async with connect(server) as caller:
        task_id = await caller.hand_in("think")
        ((key, request),) = (await caller.asked(task_id))["inputRequests"].items()
        assert (request["method"], request["params"]["maxTokens"]) == ("sampling/createMessage", 5)
        with pytest.raises(MCPError, match="still open"):
            await caller.update(task_id, {key: {"role": "assistant"}})
        await caller.update(task_id, {key: reply})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "Because"


@requirement("R-20")
async def test_roots_are_asked_of_the_caller(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def look(ctx: Context) -> str:
        with pytest.warns(MCPDeprecationWarning):
            roots = (await ctx.session.list_roots()).roots  # pyright: ignore[reportDeprecated]
        return ", ".join(str(root.uri) for root in roots)

    async with connect(server) as caller:
        task_id = await caller.hand_in("look")
        ((key, request),) = (await caller.asked(task_id))["inputRequests"].items()
        assert request["method"] == "roots/list"
        await caller.update(task_id, {key: {"roots": [{"uri": "file:///srv"}]}})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "file:///srv"


@requirement("T-04")
async def test_a_caller_that_cannot_be_asked_is_told_so_at_once(server: TaskServer) -> None:
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).action

    async with over_http(server, capabilities=TASKS) as caller:
        done = await caller.finished(await caller.hand_in("ask"))
    assert (done["status"], done["error"]["code"]) == ("failed", -32021)
    assert "elicitation" in done["error"]["data"]["requiredCapabilities"]


@requirement("R-20")
async def test_a_bare_elicitation_capability_is_enough_to_be_asked(server: TaskServer) -> None:
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).action

    async with over_http(server, capabilities={**TASKS, "elicitation": {}}) as caller:
        assert (await caller.asked(await caller.hand_in("ask")))["status"] == "input_required"


# How far it is


@requirement("R-19", "T-06")
async def test_progress_is_told_in_the_status_message(server: TaskServer, connect: Connect) -> None:
    told, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def slow(ctx: Context) -> None:
        await ctx.report_progress(1, 4, "Copying")
        told.set()
        await go_on.wait()

    async with connect(server) as caller:
        created = await caller.call("slow")
        await told.wait()
        polled = await caller.get(created["taskId"])
        go_on.set()
    assert polled["statusMessage"] == "Copying (1 of 4)"
    assert polled["lastUpdatedAt"] > created["lastUpdatedAt"]


@requirement("R-19")
@pytest.mark.parametrize(("total", "said"), [(4, {"progress": 1, "total": 4}), (None, {"progress": 1})])
async def test_progress_is_told_in_numbers_until_the_end(
    server: TaskServer, connect: Connect, total: float | None, said: dict[str, Any]
) -> None:
    told, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def slow(ctx: Context) -> None:
        await ctx.report_progress(1, total)
        told.set()
        await go_on.wait()

    async with connect(server) as caller:
        task_id = await caller.hand_in("slow")
        await told.wait()
        polled = await caller.get(task_id)
        go_on.set()
        done = await caller.finished(task_id)
    assert polled["_meta"][PROGRESS] == said
    assert PROGRESS not in done["_meta"]


async def test_work_that_tells_no_progress_has_none_in_numbers(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    async with connect(server) as caller:
        polled = await caller.get(await caller.hand_in("endless"))
    assert PROGRESS not in polled["_meta"]


@requirement("R-19")
@pytest.mark.parametrize("progress", [(-1, None), (float("nan"), 2), (1, float("inf"))])
async def test_progress_that_means_nothing_does_not_stop_the_tool(
    server: TaskServer, progress: tuple[Any, Any]
) -> None:
    @server.tool(task=True)
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(*progress)
        return "done"

    async with in_memory(server) as caller:
        assert (await caller.result("slow"))["content"][0]["text"] == "done"


async def test_a_plain_call_reports_progress_as_ever(server: TaskServer) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    @server.tool(task=True)
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return "done"

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with in_memory(server, extensions=[]) as caller:
        await caller.client.call_tool("slow", {}, progress_callback=note)
    assert seen == [(1, 2, "half")]


@requirement("S-057")
async def test_logging_in_a_task_is_dropped_and_does_not_stop_the_tool(server: TaskServer) -> None:
    @server.tool(task=True)
    async def talk(ctx: Context) -> str:
        with pytest.warns(MCPDeprecationWarning):
            await ctx.info("hello")  # pyright: ignore[reportDeprecated]
        return "done"

    async with in_memory(server) as caller:
        assert (await caller.result("talk"))["content"][0]["text"] == "done"


# What else a tool finds there


class Pool:
    is_open = True


@asynccontextmanager
async def lifespan(_: MCPServer[Any]) -> AsyncGenerator[Pool]:
    pool = Pool()
    yield pool
    pool.is_open = False


@pytest.mark.parametrize("extensions", ["declared", "not declared"])
async def test_the_authors_own_lifespan_state_is_there(extensions: str) -> None:
    server = TaskServer("test", store="memory://", lifespan=lifespan)

    @server.tool(task=True)
    async def look(ctx: Context[Any]) -> str:
        state = ctx.request_context.lifespan_context
        return f"{type(state).__name__} {state.is_open}"

    async with over_http(server) as caller:
        if extensions == "declared":
            text = (await caller.result("look"))["content"][0]["text"]
        else:
            text = (await caller.again(capabilities={}).call("look"))["content"][0]["text"]
    assert text == "Pool True"


async def test_the_authors_own_lifespan_outlives_the_work_of_tasks() -> None:
    server = TaskServer("test", store="memory://", lifespan=lifespan)
    stopped_with: list[bool] = []
    started = asyncio.Event()

    @server.tool(task=True)
    async def look(ctx: Context[Any]) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped_with.append(ctx.request_context.lifespan_context.is_open)

    async with in_memory(server) as caller:
        await caller.hand_in("look")
        await started.wait()
    assert stopped_with == [True]


async def test_a_task_reads_resources_of_its_server(server: TaskServer) -> None:
    @server.resource("note://one")
    def note() -> str:
        return "a note"

    @server.tool(task=True)
    async def look(ctx: Context) -> str:
        (content,) = await ctx.read_resource("note://one")
        return str(content.content)

    async with in_memory(server) as caller:
        assert (await caller.result("look"))["content"][0]["text"] == "a note"


async def test_a_task_has_no_headers_unless_its_caller_still_waits(server: TaskServer) -> None:
    @server.tool(task=True)
    async def look(ctx: Context) -> str:
        return str(ctx.headers)

    async with over_http(server) as caller:
        assert (await caller.result("look"))["content"][0]["text"] == "None"
        assert "mcp-method" in (await caller.again(capabilities={}).call("look"))["content"][0]["text"]


async def test_a_task_knows_its_request(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def look(ctx: Context) -> dict[str, Any]:
        assert ctx.client_capabilities
        return {
            "id": ctx.request_id,
            "version": ctx.protocol_version,
            "can": sorted(ctx.client_capabilities.extensions or {}),
            "meta": dict(ctx.request_context.meta or {}),
        }

    async with connect(server) as caller:
        params = {"name": "look", "arguments": {}, "_meta": {"io.example/trace": "7"}}
        task_id = (await caller.request("tools/call", params))["taskId"]
        found = (await caller.finished(task_id))["result"]["structuredContent"]
    assert (found["id"], found["version"]) == (task_id, "2026-07-28")
    assert found["can"] == ["io.modelcontextprotocol/tasks"]
    assert found["meta"]["io.example/trace"] == "7"


async def test_a_task_can_tell_listeners_that_something_has_changed(server: TaskServer) -> None:
    @server.tool(task=True)
    async def change(ctx: Context) -> str:
        await ctx.notify_tools_changed()
        await ctx.notify_resource_updated("note://one")
        return "done"

    async with over_http(server) as caller, caller.listening(toolsListChanged=True) as stream:
        await stream.start()
        await stream.message()
        result = await caller.result("change")
        assert result["content"][0]["text"] == "done"
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_task_can_call_another_tool_of_its_server(server: TaskServer) -> None:
    @server.tool(task=True)
    async def inner(a: int) -> int:
        return a + 1

    @server.tool(task=True)
    async def outer(ctx: Context) -> dict[str, Any]:
        result = await ctx.mcp_server.call_tool("inner", {"a": 1}, ctx)
        assert isinstance(result, types.CallToolResult)
        return result.structured_content or {}

    async with in_memory(server) as caller:
        assert (await caller.result("outer"))["structuredContent"] == {"result": 2}
