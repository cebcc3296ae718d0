"""Which of the two a call returns is known to type checkers: this file is checked by one, and runs as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_type

import pytest
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, GetPromptResult, InputRequiredResult

from coatcheck import Task
from coatcheck.server import LocalTask, TaskContext, TaskMeta, TaskPage, TaskServer
from tests.local.stage import PATIENCE
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio

META = TaskMeta(ttl=60)
Read = list[ReadResourceContents]


@pytest.fixture(autouse=True)
def components(server: TaskServer) -> None:
    @server.tool(task=True)
    async def add(a: int = 0) -> int:
        return a

    @server.resource("notes://{name}", task=True)
    async def note(name: str) -> str:
        return name

    @server.prompt(task=True)
    async def ask(topic: str = "") -> str:
        return topic


@requirement("M-006")
async def test_a_tool_returns_a_result_or_a_handle_of_one(server: TaskServer) -> None:
    async with server.started():
        assert_type(await server.call_tool("add"), CallToolResult | InputRequiredResult)
        assert_type(await server.call_tool("add", {"a": 1}, task_meta=None), CallToolResult | InputRequiredResult)
        task = assert_type(await server.call_tool("add", {"a": 1}, task_meta=META), LocalTask[CallToolResult])
        assert_type(await task, CallToolResult)
        assert_type(await task.result(PATIENCE), CallToolResult)
        assert isinstance(await server.call_tool("add"), CallToolResult)
        assert isinstance(task, LocalTask)


@requirement("M-006")
async def test_a_resource_is_read_now_or_by_a_handle(server: TaskServer) -> None:
    async with server.started():
        assert_type(await server.read_resource("notes://x"), Iterable[ReadResourceContents] | InputRequiredResult)
        assert_type(
            await server.read_resource("notes://x", task_meta=None),
            Iterable[ReadResourceContents] | InputRequiredResult,
        )
        task = assert_type(await server.read_resource("notes://x", task_meta=META), LocalTask[Read])
        assert_type(await task, Read)
        assert [item.content for item in await task] == ["x"]


@requirement("M-006")
async def test_a_prompt_is_rendered_now_or_by_a_handle(server: TaskServer) -> None:
    async with server.started():
        assert_type(await server.render_prompt("ask"), GetPromptResult | InputRequiredResult)
        assert_type(await server.render_prompt("ask", {}, task_meta=None), GetPromptResult | InputRequiredResult)
        task = assert_type(
            await server.render_prompt("ask", {"topic": "x"}, task_meta=META), LocalTask[GetPromptResult]
        )
        assert_type(await task, GetPromptResult)
        assert isinstance(await task, GetPromptResult)


async def test_both_contexts_may_be_passed_on(server: TaskServer) -> None:
    @server.tool(task=True)
    async def parent(theirs: Context, ours: TaskContext) -> int:
        tasks = [
            assert_type(await server.call_tool("add", {}, theirs, task_meta=META), LocalTask[CallToolResult]),
            assert_type(await server.call_tool("add", {}, ours, task_meta=META), LocalTask[CallToolResult]),
        ]
        assert_type(await server.call_tool("add", {}, theirs), CallToolResult | InputRequiredResult)
        assert_type(await server.read_resource("notes://x", ours, task_meta=META), LocalTask[Read])
        assert_type(await server.render_prompt("ask", {}, theirs, task_meta=META), LocalTask[GetPromptResult])
        return len([await task for task in tasks])

    async with server.started():
        result = await (await server.call_tool("parent", task_meta=META))
        assert result.structured_content == {"result": 2}


async def test_what_handles_and_lists_return(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("add", task_meta=META)
        assert_type(await task.wait(PATIENCE), Task)
        assert_type(await task.fetch(), Task)
        assert_type(await task.changed(0), Task)
        assert_type(task.latest, Task)
        assert_type(task.id, str)
        assert_type(await server.task(task.id), LocalTask[Any])
        page = assert_type(await server.list_tasks(), TaskPage)
        assert_type(page.next_cursor, str | None)
        assert [each.id for each in page.tasks] == [task.id]


def test_a_server_that_runs_is_the_server() -> None:
    async def starting(server: TaskServer) -> None:
        async with server.started() as running:
            assert_type(running, TaskServer)

    assert callable(starting)
