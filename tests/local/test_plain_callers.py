"""Tasks that tools make for whoever called them: found by that caller over the wire, whatever they are of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError

from coatcheck.errors import Forbidden, TooOften
from coatcheck.server import Rate, TaskContext, TaskMeta, TaskServer, role
from tests.access.people import callers, guarded
from tests.local.stage import TASK
from tests.requirements.marks import requirement
from tests.v2025.wire import NEW, NOT_FOUND, OLD, VERSION, WITH_TASKS, Place, Talk, served, text_of

pytestmark = pytest.mark.anyio

WORDS = {"tool": "3", "resource": "a note", "prompt": "a prompt", "blob": "YQ=="}


def build(**options: Any) -> TaskServer:
    """Return a server with one of each kind, and a plain tool that hands each of them in for its caller."""
    server = guarded(**options)

    @server.tool(task=True, rate=Rate(3))
    async def add(a: int) -> int:
        return a + 1

    @server.tool(task=True, authorize=role("editor"))
    async def edit() -> str:
        return "edited"

    @server.resource("notes://{name}", task=True, authorize=role("editor"))
    async def note(name: str) -> str | bytes:
        return b"a" if name == "blob" else "a note"

    @server.prompt(task=True, authorize=role("editor"))
    async def ask() -> str:
        return "a prompt"

    @server.tool()
    async def make(kind: str, ctx: Context) -> str:
        match kind:
            case "tool":
                return (await server.call_tool("add", {"a": 2}, ctx, task_meta=TASK)).id
            case "edit":
                return (await server.call_tool("edit", {}, ctx, task_meta=TASK)).id
            case "prompt":
                return (await server.render_prompt("ask", {}, ctx, task_meta=TASK)).id
            case _:
                return (await server.read_resource(f"notes://{kind}", ctx, task_meta=TASK)).id

    @server.tool()
    async def make_with_ours(ctx: TaskContext) -> str:
        return (await server.call_tool("add", {"a": 2}, ctx, task_meta=TASK)).id

    @server.tool()
    async def make_for_nobody() -> str:
        return (await server.call_tool("edit", {}, task_meta=TASK)).id

    return server


@asynccontextmanager
async def talking(server: TaskServer, version: str, name: str = "ann") -> AsyncGenerator[tuple[Place, Talk]]:
    capabilities = WITH_TASKS if version == NEW else {}
    async with served(server) as place:
        yield place, await place.http(version, capabilities, token=name, stands=False)


async def settled(place: Place, task_id: str) -> Any:
    (task,) = [task for task in await place.engine.list_all() if task.id == task_id]
    return await place.engine.finished(task)


@requirement("E-002", "E-003", "R-22")
@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
@pytest.mark.parametrize("version", [NEW, VERSION])
async def test_over_the_wire_only_tools_are_tasks(version: str, method: str) -> None:
    wanted = {"resources/read": {"uri": "notes://note"}, "prompts/get": {"name": "ask"}}[method]
    async with talking(build(), version) as (place, caller):
        answer = await caller.ask(method, **wanted, **({} if version == NEW else {"task": {"ttl": 1000}}))
        assert "task" not in answer
        assert answer.get("resultType", "complete") == "complete"
        assert await place.engine.list_all() == []


@requirement("E-018", "M-016")
@pytest.mark.parametrize("kind", WORDS)
async def test_a_task_of_a_caller_is_found_by_it_in_2026(kind: str) -> None:
    async with talking(build(), NEW) as (place, caller):
        task_id = text_of(await caller.use("make", kind=kind))
        assert (await settled(place, task_id)).status == "completed"
        found = await caller.get(task_id)
        assert (found["status"], found["result"]["resultType"]) == ("completed", "complete")
        assert WORDS[kind] in str(found["result"])
        bob = await place.http(NEW, WITH_TASKS, token="bob", stands=False)
        assert await bob.refusal("tasks/get", taskId=task_id) == NOT_FOUND


@requirement("E-018")
@pytest.mark.parametrize("kind", WORDS)
async def test_a_task_of_a_caller_is_found_by_it_in_2025(kind: str) -> None:
    async with talking(build(), VERSION) as (place, caller):
        task_id = text_of(await caller.use("make", kind=kind))
        assert (await settled(place, task_id)).status == "completed"
        assert (await caller.get(task_id))["status"] == "completed"
        assert WORDS[kind] in str(await caller.collect(task_id))
        assert [task["taskId"] for task in (await caller.ask("tasks/list"))["tasks"]] == [task_id]
        bob = await place.http(VERSION, {}, token="bob", stands=False)
        assert await bob.refusal("tasks/get", taskId=task_id) == NOT_FOUND
        assert (await bob.ask("tasks/list"))["tasks"] == []


@pytest.mark.parametrize("tool", ["get_task", "wait_task"])
@pytest.mark.parametrize("kind", WORDS)
async def test_a_task_of_a_caller_without_tasks_is_found_by_it_with_its_tools(kind: str, tool: str) -> None:
    async with talking(build(), OLD) as (place, caller):
        task_id = text_of(await caller.use("make", kind=kind))
        await settled(place, task_id)
        found = await caller.use(tool, task_id=task_id)
        assert found["isError"] is False, found
        assert WORDS[kind] in str(found["content"])
        assert task_id in str(await caller.use("list_tasks"))


async def test_our_own_context_says_as_well_for_whom_a_call_is_made() -> None:
    async with talking(build(), NEW) as (place, caller):
        task_id = text_of(await caller.use("make_with_ours"))
        await settled(place, task_id)
        assert (await caller.get(task_id))["status"] == "completed"


@requirement("F-062")
@pytest.mark.parametrize("kind", ["edit", "note", "prompt"])
async def test_a_call_for_a_caller_is_held_to_what_that_one_may_do(kind: str) -> None:
    async with talking(build(), NEW, "bob") as (place, caller):
        answer = await caller.use("make", kind=kind)
        assert answer["isError"]
        assert await place.engine.list_all() == []


async def test_a_call_with_no_context_may_do_everything_and_is_nobodys() -> None:
    async with talking(build(), NEW, "bob") as (place, caller):
        task_id = text_of(await caller.use("make_for_nobody"))
        task = await settled(place, task_id)
        assert (task.status, task.owner) == ("completed", None)
        assert await caller.refusal("tasks/get", taskId=task_id) == NOT_FOUND


async def test_a_call_for_a_caller_counts_against_its_rate() -> None:
    async with talking(build(), NEW) as (_, caller):
        for _ in range(3):
            assert not (await caller.use("make", kind="tool")).get("isError")
        refused = await caller.use("make", kind="tool")
        assert refused["isError"]
        for _ in range(3):  # of rules and rates there are only those of the caller
            assert not (await caller.use("make_for_nobody")).get("isError")


async def test_what_is_refused_is_raised_where_it_can_be_caught() -> None:
    server, caught = build(), list[Exception]()

    @server.tool()
    async def attempt(ctx: Context) -> None:
        for _ in range(4):
            try:
                await server.call_tool("add", {"a": 1}, ctx, task_meta=TASK)
            except TooOften as error:
                caught.append(error)
        try:
            await server.render_prompt("ask", {}, ctx, task_meta=TASK)
        except Forbidden as error:
            caught.append(error)

    async with talking(server, NEW, "bob") as (_, caller):
        await caller.use("attempt")
    assert [type(error) for error in caught] == [TooOften, Forbidden]
    assert "You may not use the prompt 'ask'" in str(caught[1])


async def test_a_task_that_asks_is_answered_by_its_caller_over_the_wire() -> None:
    server = build()

    @server.tool(task=True)
    async def confirm(ctx: TaskContext) -> str:
        answer = await ctx.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return str(answer["content"]["sure"])

    @server.tool()
    async def begin(ctx: Context) -> str:
        return (await server.call_tool("confirm", {}, ctx, task_meta=TASK)).id

    async with talking(server, NEW) as (place, caller):
        task_id = text_of(await caller.use("begin"))
        (task,) = await place.engine.list_all()
        await place.engine.settled(task, 30)
        (key,) = (await caller.get(task_id))["inputRequests"]
        answer = {key: {"action": "accept", "content": {"sure": True}}}
        await caller.ask("tasks/update", taskId=task_id, inputResponses=answer)
        assert text_of((await _ended(place, caller, task_id))["result"]) == "True"
        with pytest.raises(MCPError):
            await caller.get("task_unknown")


async def _ended(place: Place, caller: Talk, task_id: str) -> Any:
    await settled(place, task_id)
    return await caller.get(task_id)


@requirement("F-057")
async def test_rules_are_asked_about_what_will_run_and_not_about_what_was_asked_for() -> None:
    async def elsewhere(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = dict(ctx.params or {})
        if str(params.get("uri", "")).startswith("open:"):
            params["uri"] = "open://secret"
        return await call_next(replace(ctx, params=params))

    server, caught = guarded(middleware=[elsewhere]), list[Exception]()

    @server.tool(task=True, authorize=role("editor"))
    async def edit() -> str:
        return "edited"

    @server.tool(task=True)
    async def look() -> str:
        return "seen"

    @server.resource("open://{name}", task=True, authorize=lambda who, given: given["name"] != "secret")
    async def page(name: str) -> str:
        return name

    @server.tool()
    async def attempt(ctx: Context) -> None:
        for call in (
            server.call_tool("look", {}, ctx, task_meta=TaskMeta(component="tool:edit")),
            server.read_resource("open://plan", ctx, task_meta=TASK),
        ):
            try:
                await call
            except Forbidden as error:
                caught.append(error)

    async with callers(server) as (_, bob, _eve):
        await bob.call("attempt")
        assert await server.tasks.running.engine.list_all() == []
    assert [str(error).split(";")[0] for error in caught] == [
        "You may not use the tool 'edit'",
        "You may not use the resource 'open://secret'",
    ]


async def test_a_call_without_a_context_has_nothing_to_do_with_who_is_served_meanwhile() -> None:
    server = guarded()

    @server.tool(task=True)
    async def who() -> str:
        return str(get_access_token())

    @server.tool()
    async def attempt() -> str:
        result = await (await server.call_tool("who", task_meta=TASK))
        return str(result.structured_content)

    async with callers(server) as (ann, _, _eve):
        assert (await ann.call("attempt"))["structuredContent"] == {"result": "{'result': 'None'}"}
