"""TaskContext and SyncContext, for tools that want more of their task; and what they are in a plain call."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context
from pydantic import Field

from coatcheck import decode
from coatcheck.server import SyncContext, TaskContext, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import PATIENCE, in_memory, over_http

pytestmark = pytest.mark.anyio


async def _text(server: TaskServer, tool_name: str, /, *, as_task: bool, **arguments: Any) -> str:
    async with over_http(server) as caller:
        if as_task:
            result = await caller.result(tool_name, **arguments)
        else:
            result = await caller.again(capabilities={}).call(tool_name, **arguments)
    assert not result["isError"], result
    return result["content"][0]["text"]


both_ways = pytest.mark.parametrize("as_task", [True, False], ids=["task", "plain call"])


@both_ways
async def test_a_tool_finds_its_task(server: TaskServer, as_task: bool) -> None:
    @server.tool(task=True)
    async def look(task: TaskContext) -> str:
        return f"{task.task.call.tool} {bool(task.task.id)}"

    assert await _text(server, "look", as_task=as_task) == "look True"


@both_ways
async def test_a_tool_may_have_both_contexts_and_arguments_in_any_order(server: TaskServer, as_task: bool) -> None:
    @server.tool(task=True)
    async def look(
        a: int, task: TaskContext, ctx: Context, b: Annotated[str, Field(description="Another")] = "x"
    ) -> str:
        return f"{a} {b} {task.task.call.tool} {ctx.protocol_version}"

    assert await _text(server, "look", as_task=as_task, a=1, b="y") == "1 y look 2026-07-28"


async def test_no_client_sees_or_fills_the_context_parameter(server: TaskServer) -> None:
    @server.tool(task=True)
    async def look(task: TaskContext, a: int) -> str:
        return type(task).__name__

    @server.tool(task=True)
    def look_too(a: int, task: SyncContext | None = None) -> str:
        return type(task).__name__

    for tool in await server.list_tools():
        assert list(tool.input_schema["properties"]) == ["a"]
    assert await _text(server, "look", as_task=True, a=1, task="mine") == "TaskContext"
    assert await _text(server, "look_too", as_task=True, a=1, task="mine") == "SyncContext"


@both_ways
async def test_steps_return_what_they_made(server: TaskServer, as_task: bool) -> None:
    @server.tool(task=True)
    async def walk(task: TaskContext) -> str:
        async def later(n: int) -> list[int]:
            return [n]

        return str([await task.step("a", lambda: (1, 2)), await task.step("b", later, 3)])

    @server.tool(task=True)
    def walk_too(task: SyncContext) -> str:
        return str([task.step("a", lambda: (1, 2)), task.step("b", list[int], (3,))])

    for tool in ("walk", "walk_too"):
        assert await _text(server, tool, as_task=as_task) == "[[1, 2], [3]]"


async def test_steps_and_output_are_in_the_journal(server: TaskServer) -> None:
    @server.tool(task=True)
    async def walk(task: TaskContext) -> None:
        await task.step("first", lambda: 1)
        await task.output({"part": 1})
        await task.output({"part": 2})

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("walk")
        await caller.finished(task_id)
        entries = await server.tasks.running.engine.journal(task_id)
    assert [(entry.kind, decode(entry.value)) for entry in entries] == [
        ("step", 1),
        ("output", {"part": 1}),
        ("output", {"part": 2}),
    ]


@both_ways
async def test_every_verb_works_whether_there_is_a_task_or_not(server: TaskServer, as_task: bool) -> None:
    @server.tool(task=True)
    async def talk(task: TaskContext) -> str:
        await task.progress(1, 2, "half")
        await task.note("nearly")
        await task.output("part")
        await task.flush()
        return f"done {task.is_stopping}"

    @server.tool(task=True)
    def talk_too(task: SyncContext) -> str:
        task.progress(1, 2, "half")
        task.note("nearly")
        task.output("part")
        task.check()
        return f"done {task.is_stopped}"

    for tool in ("talk", "talk_too"):
        assert await _text(server, tool, as_task=as_task) == "done False"


@requirement("R-19")
async def test_a_note_is_the_status_message(server: TaskServer, connect: Connect) -> None:
    noted, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def talk(task: TaskContext) -> None:
        await task.note("Counting sheep")
        noted.set()
        await go_on.wait()

    async with connect(server) as caller:
        task_id = await caller.hand_in("talk")
        await noted.wait()
        assert (await caller.get(task_id))["statusMessage"] == "Counting sheep"
        go_on.set()


async def test_a_plain_call_reports_progress_to_its_caller(server: TaskServer) -> None:
    seen: list[Any] = []

    @server.tool(task=True)
    async def talk(task: TaskContext) -> None:
        await task.progress(1, 2, "half")

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with in_memory(server, extensions=[]) as caller:
        await caller.client.call_tool("talk", {}, progress_callback=note)
    assert seen == [(1, 2, "half")]


async def test_a_call_that_is_no_task_cannot_ask_through_it(server: TaskServer) -> None:
    @server.tool(task=False)
    async def ask(task: TaskContext) -> str:
        return str(await task.elicit("Who?", {"type": "object"}))

    async with over_http(server) as caller:
        result = await caller.again(capabilities={}).call("ask")
    assert result["isError"]


async def test_a_tool_may_say_that_its_context_is_not_always_there(server: TaskServer) -> None:
    @server.tool(task=True)
    async def look(task: TaskContext | None = None) -> str:
        return str(task is not None)

    assert await look() == "False"
    assert await _text(server, "look", as_task=True) == "True"


async def test_a_tool_that_is_never_a_task_may_still_ask_for_a_context(server: TaskServer) -> None:
    @server.tool()
    async def look(task: TaskContext) -> str:
        return task.task.call.tool

    assert await _text(server, "look", as_task=False) == "look"


# Tools that are not on the loop


@both_ways
async def test_a_plain_function_does_not_block_the_loop(server: TaskServer, as_task: bool) -> None:
    @server.tool(task=True)
    def where() -> str:
        return str(threading.current_thread() is threading.main_thread())

    assert await _text(server, "where", as_task=as_task) == "False"


@requirement("S-047")
async def test_a_plain_function_learns_that_it_was_cancelled(server: TaskServer) -> None:
    started, stopped = threading.Event(), threading.Event()

    @server.tool(task=True)
    def count(task: SyncContext) -> None:
        started.set()
        try:
            while stopped.wait(0.001) is False:
                task.check()
        finally:
            stopped.set()

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("count")
        assert await asyncio.to_thread(started.wait, PATIENCE)
        await caller.cancel(task_id)
        assert (await caller.get(task_id))["status"] == "cancelled"
        assert await asyncio.to_thread(stopped.wait, PATIENCE)


async def test_a_plain_function_may_ask(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    def ask(task: SyncContext) -> str:
        return task.elicit("Who?", {"type": "object"})["action"]

    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        (key,) = (await caller.asked(task_id))["inputRequests"]
        await caller.update(task_id, {key: {"action": "cancel"}})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "cancel"


@both_ways
@pytest.mark.parametrize("name", ["arguments", "name", "function", "tool", "task", "ctx"])
async def test_an_argument_may_have_any_name(server: TaskServer, name: str, as_task: bool) -> None:
    _add_echo(server, name)
    assert await _text(server, "echo", as_task=as_task, **{name: "x"}) == "x"


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_argument_may_be_called_context(server: TaskServer, is_async: bool) -> None:
    _add_echo(server, "context", is_async=is_async)
    assert await _text(server, "echo", as_task=True, context="x") == "x"


async def test_an_argument_may_be_called_context_in_a_plain_call(server: TaskServer) -> None:
    _add_echo(server, "context")
    assert await _text(server, "echo", as_task=False, context="x") == "x"


def _add_echo(server: TaskServer, parameter: str, *, is_async: bool = True) -> None:
    made: dict[str, Any] = {}
    exec(f"{'async ' if is_async else ''}def echo({parameter}: str) -> str: return {parameter}", made)
    server.add_tool(made["echo"], task=True)


class Adder:
    def __init__(self, more: int) -> None:
        self._more = more

    async def add(self, a: int, task: TaskContext) -> int:
        return a + self._more

    async def __call__(self, a: int) -> int:
        return a + 10 * self._more

    @staticmethod
    def plainly(a: int) -> int:
        return a


async def test_methods_and_objects_can_be_tools(server: TaskServer) -> None:
    server.add_tool(Adder(1).add, "method", task=True)
    server.add_tool(Adder(2), "object", task=True)
    server.add_tool(Adder.plainly, task=True)
    async with in_memory(server) as caller:
        texts = [(await caller.result(tool, a=1))["content"][0]["text"] for tool in ("method", "object", "plainly")]
    assert texts == ["2", "21", "1"]
