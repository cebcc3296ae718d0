"""Resources and prompts as tasks of your own code."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptResult, TextContent

from coatcheck import InvalidArgument, Status, ToolFailed
from coatcheck.server import TaskPolicy, TaskServer
from tests.local.stage import TASK, Name, asked, until
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


def text(prompt: GetPromptResult) -> str:
    (message,) = prompt.messages
    assert isinstance(message.content, TextContent)
    return message.content.text


@requirement("E-018", "M-001", "R-22")
async def test_a_static_resource_is_read_in_a_task(server: TaskServer) -> None:
    @server.resource("notes://today", task=True, mime_type="text/markdown")
    async def today() -> str:
        return "# Today"

    async with server.started():
        called = await server.read_resource("notes://today")
        task = await server.read_resource("notes://today", task_meta=TASK)
        assert task.latest.call.tool == "resource:notes://today"
        assert await task == list(called)
        (item,) = await task
        assert (item.content, item.mime_type) == ("# Today", "text/markdown")


@requirement("E-018")
async def test_what_a_template_makes_is_read_in_a_task(server: TaskServer) -> None:
    @server.resource("notes://{day}/{page}", task=True)
    def note(day: str, page: int) -> str:
        return f"{day}, {page + 1}"

    async with server.started():
        task = await server.read_resource("notes://monday/1", task_meta=TASK)
        assert task.latest.call.tool == "resource:notes://{day}/{page}"
        (item,) = await task
        assert item.content == "monday, 2"


async def test_bytes_stay_bytes(server: TaskServer) -> None:
    everything = bytes(range(256))

    @server.resource("raw://{name}", task=True, mime_type="application/x-raw")
    async def raw(name: str) -> bytes:
        return everything

    async with server.started():
        (item,) = await (await server.read_resource("raw://a", task_meta=TASK))
        assert (item.content, item.mime_type) == (everything, "application/x-raw")


async def test_what_a_resource_says_of_itself_is_kept(server: TaskServer) -> None:
    @server.resource("notes://x", task=True, meta={"example.com/author": "Ann"})
    async def note() -> dict[str, int]:
        return {"a": 1}

    async with server.started():
        (called,) = await server.read_resource("notes://x")
        (item,) = await (await server.read_resource("notes://x", task_meta=TASK))
        assert item == called
        assert item.meta == {"example.com/author": "Ann"}


@requirement("E-018", "M-001", "R-22")
async def test_a_prompt_is_rendered_in_a_task(server: TaskServer) -> None:
    @server.prompt(task=True, description="Asks for a summary")
    async def summary(topic: str, length: str = "short") -> str:
        return f"A {length} summary of {topic}"

    async with server.started():
        called = await server.render_prompt("summary", {"topic": "tides"})
        task = await server.render_prompt("summary", {"topic": "tides"}, task_meta=TASK)
        assert task.latest.call.tool == "prompt:summary"
        assert await task == called
        assert text(await task) == "A short summary of tides"
        assert (await task).description == "Asks for a summary"


async def test_missing_arguments_of_a_prompt_are_refused_before_there_is_a_task(server: TaskServer) -> None:
    @server.prompt(task=True)
    async def summary(topic: str, length: str, tone: str = "dry") -> str:
        return topic

    async with server.started():
        with pytest.raises(InvalidArgument, match="Prompt 'summary' needs topic, length; pass all that it needs"):
            await server.render_prompt("summary", {"tone": "wry"}, task_meta=TASK)
        assert await server.tasks.running.engine.list_all() == []


@pytest.mark.parametrize("what", ["notes://unknown", "notes://plain", "nonsense"])
async def test_resources_that_are_no_tasks_are_refused_with_what_to_do(server: TaskServer, what: str) -> None:
    @server.resource("notes://plain")
    async def plain() -> str:
        return "plain"

    async with server.started():
        with pytest.raises(InvalidArgument, match=rf"resource '{what}' are no tasks here; register it with task=True"):
            await server.read_resource(what, task_meta=TASK)
        assert await server.tasks.running.engine.list_all() == []


@pytest.mark.parametrize("what", ["unknown", "plain"])
async def test_prompts_that_are_no_tasks_are_refused_with_what_to_do(server: TaskServer, what: str) -> None:
    @server.prompt()
    async def plain() -> str:
        return "plain"

    async with server.started():
        with pytest.raises(InvalidArgument, match=rf"prompt '{what}' are no tasks here; register it with task=True"):
            await server.render_prompt(what, task_meta=TASK)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MCPError(-32000, "Gone", {"since": 1}), -32000, "Gone"),
        (ResourceError("No such page"), -32603, "No such page"),
        (RuntimeError("secret"), -32603, "Error"),
    ],
    ids=["protocol", "its own", "crash"],
)
async def test_what_goes_wrong_in_a_resource_is_an_error_of_the_protocol(
    server: TaskServer, error: Exception, code: int, said: str
) -> None:
    @server.resource("notes://{page}", task=True)
    async def note(page: str) -> str:
        raise error

    async with server.started():
        task = await server.read_resource("notes://1", task_meta=TASK)
        with pytest.raises(ToolFailed) as failed:
            await task
        assert (failed.value.code, said in failed.value.message) == (code, True)
        assert "secret" not in str(task.latest)
        assert task.latest.status is Status.FAILED


@pytest.mark.parametrize("error", [MCPError(-32000, "Gone"), RuntimeError("secret"), ValueError("secret")], ids=repr)
async def test_what_goes_wrong_in_a_prompt_is_an_error_of_the_protocol(
    server: TaskServer, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    @server.prompt(task=True)
    async def ask() -> str:
        raise error

    logging.getLogger("coatcheck").setLevel(logging.ERROR)
    async with server.started():
        task = await server.render_prompt("ask", task_meta=TASK)
        with pytest.raises(ToolFailed) as failed:
            await task
    is_own = isinstance(error, MCPError)
    assert (failed.value.code, failed.value.message) == (
        (-32000, "Gone") if is_own else (-32603, "Error rendering prompt ask")
    )
    assert ("secret" in caplog.text) is not is_own  # whoever runs the server is told


async def test_templates_and_prompts_may_ask_and_report(server: TaskServer) -> None:
    @server.resource("notes://{page}", task=True)
    async def note(page: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "opened")
        answer = await ctx.elicit("Whose?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    @server.prompt(task=True)
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    async with server.started():
        reading = await server.read_resource("notes://1", task_meta=TASK)
        await until(reading, lambda now: now.status_message == "opened")
        await asked(reading)
        await reading.send_input("accept", {"name": "Ann"})
        (item,) = await reading
        assert item.content == "Ann"
        rendering = await server.render_prompt("greet", task_meta=TASK)
        await asked(rendering)
        await rendering.send_input("decline")
        assert text(await rendering) == "decline"


# Who is a task


def everything(default: Any, own: Any) -> TaskServer:
    server = TaskServer("test", store="memory://", task=default)

    @server.tool(task=own)
    async def tool() -> str:
        return "tool"

    @server.resource("static://x", task=own)
    async def static() -> str:
        return "static"

    @server.resource("made://{x}", task=own)
    async def made(x: str) -> str:
        return x

    @server.prompt(task=own)
    async def prompt() -> str:
        return "prompt"

    return server


def calls(server: TaskServer) -> list[Any]:
    return [
        server.call_tool("tool", task_meta=TASK),
        server.read_resource("static://x", task_meta=TASK),
        server.read_resource("made://y", task_meta=TASK),
        server.render_prompt("prompt", task_meta=TASK),
    ]


@requirement("E-008", "E-009")
@pytest.mark.parametrize(
    ("default", "own", "are_tasks"),
    [
        (None, None, False),
        (None, True, True),
        (True, None, True),
        (True, "forbidden", False),
        ("required", None, True),
        ("forbidden", "optional", True),
        ("forbidden", None, False),
        (TaskPolicy("optional", ttl=60), TaskPolicy(ttl=30), True),
    ],
    ids=range(8),
)
async def test_the_server_says_what_may_be_a_task_unless_the_component_does(
    default: Any, own: Any, are_tasks: bool
) -> None:
    server = everything(default, own)
    async with server.started():
        for call in calls(server):
            if are_tasks:
                task = await call
                if isinstance(own, TaskPolicy):
                    assert task.latest.expires_at - task.latest.created_at == timedelta(seconds=30)
                await task
            else:
                with pytest.raises(InvalidArgument, match="no tasks here"):
                    await call


@requirement("E-008")
async def test_the_servers_mode_is_that_of_ready_made_components_too() -> None:
    server = TaskServer("test", store="memory://", task=True)
    server.add_resource(TextResource(uri="notes://x", name="x", text="ready"))

    async def ask() -> str:
        return "ready"

    server.add_prompt(Prompt.from_function(ask))
    async with server.started():
        (item,) = await (await server.read_resource("notes://x", task_meta=TASK))
        assert item.content == "ready"
        assert text(await (await server.render_prompt("ask", task_meta=TASK))) == "ready"


async def test_of_two_with_one_name_what_the_first_says_holds(server: TaskServer) -> None:
    @server.resource("notes://x", task=True)
    async def first() -> str:
        return "first"

    @server.prompt("ask", task="forbidden")
    async def plain() -> str:
        return "first"

    @server.resource("notes://x")
    async def second() -> str:
        return "second"

    @server.prompt("ask", task=True)
    async def other() -> str:
        return "second"

    async with server.started():
        (item,) = await (await server.read_resource("notes://x", task_meta=TASK))
        assert item.content == "first"
        with pytest.raises(InvalidArgument, match="no tasks here"):
            await server.render_prompt("ask", task_meta=TASK)


async def test_prompts_and_resources_may_come_and_go_while_the_server_runs(server: TaskServer) -> None:
    async with server.started():

        @server.prompt(task=True)
        async def ask() -> str:
            return "late"

        @server.resource("notes://{x}", task=True)
        async def note(x: str) -> str:
            return x

        assert text(await (await server.render_prompt("ask", task_meta=TASK))) == "late"
        (item,) = await (await server.read_resource("notes://late", task_meta=TASK))
        assert item.content == "late"
        server.remove_prompt("ask")
        with pytest.raises(InvalidArgument, match="no tasks here"):
            await server.render_prompt("ask", task_meta=TASK)
        server.add_prompt(Prompt.from_function(ask))
        with pytest.raises(InvalidArgument, match="no tasks here"):
            await server.render_prompt("ask", task_meta=TASK)
