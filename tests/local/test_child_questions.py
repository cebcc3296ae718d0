"""What children ask, put to whoever called their parent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError

from coatcheck import Policy, Status
from coatcheck.server import LocalTask, TaskContext, TaskPolicy, TaskServer
from tests.local.stage import PATIENCE, TASK, Name, asked, text_of, until
from tests.requirements.marks import requirement
from tests.server.wire import PATIENCE as WIRE_PATIENCE
from tests.v2025.wire import ASKABLE, INPUT_KEY, NEW, VERSION, WITH_TASKS, Place, Talk, served
from tests.v2025.wire import text_of as wire_text_of

pytestmark = pytest.mark.anyio

assert PATIENCE >= WIRE_PATIENCE


def content(name: str) -> Any:
    return {"action": "accept", "content": {"name": name}}


@pytest.fixture(autouse=True)
def tools(server: TaskServer) -> None:
    add_tools(server)


def add_tools(server: TaskServer, **policy: Any) -> None:
    @server.tool(task=True)
    async def child(n: int, ctx: Context) -> str:
        try:
            answer = await ctx.elicit("Who?", Name)
        except MCPError as error:
            return f"{n}: error {error.error.code}"
        return f"{n}: {answer.data.name if answer.action == 'accept' else answer.action}"

    @server.tool(task=TaskPolicy("optional", **policy))
    async def parent(ctx: Context, count: int = 1, tool: str = "child") -> list[str]:
        tasks = [await server.call_tool(tool, {"n": n}, ctx, task_meta=TASK) for n in range(count)]
        return [text_of(result) for result in await asyncio.gather(*(task.result() for task in tasks))]

    @server.tool(task=True)
    async def middle(n: int, ctx: Context) -> str:
        return text_of(await (await server.call_tool("child", {"n": n}, ctx, task_meta=TASK)))


def said(result: Any) -> list[str]:
    return result.structured_content["result"]


@requirement("X-29")
@pytest.mark.parametrize("tool", ["child", "middle"])
async def test_what_a_child_asks_is_asked_by_its_parent(server: TaskServer, tool: str) -> None:
    async with server.started():
        task = await server.call_tool("parent", {"tool": tool}, task_meta=TASK)
        assert (await asked(task)).status is Status.INPUT_REQUIRED
        await task.send_input("accept", {"name": "Ann"})
        assert said(await task.result(PATIENCE)) == ["0: Ann"]


async def test_each_answer_reaches_the_child_that_asked(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("parent", {"count": 3}, task_meta=TASK)
        keys = list((await asked(task, 3)).input_requests)
        assert len(set(keys)) == 3
        for number, key in enumerate(keys):
            await task.send_input("accept", {"name": f"name {number}"}, question=key)
        answers = said(await task.result(PATIENCE))
        assert [answer[:3] for answer in answers] == ["0: ", "1: ", "2: "]
        assert {answer[3:] for answer in answers} == {"name 0", "name 1", "name 2"}


@asynccontextmanager
async def calling(server: TaskServer, version: str) -> AsyncGenerator[tuple[Place, Talk]]:
    async with served(server) as place:
        yield place, await place.memory(version, WITH_TASKS if version == NEW else ASKABLE)


REPLIES: list[tuple[Any, str]] = [
    (content("Ann"), "0: Ann"),
    ({"action": "decline"}, "0: decline"),
    ({"action": "cancel"}, "0: cancel"),
]


@requirement("X-29", "R-20")
@pytest.mark.parametrize(("reply", "outcome"), REPLIES)
async def test_the_parents_caller_is_asked_in_2026(server: TaskServer, reply: Any, outcome: str) -> None:
    async with calling(server, NEW) as (place, caller):
        created = await caller.use("parent")
        task = await server.task(created["taskId"])
        await asked(task)
        ((key, request),) = (await caller.get(task.id))["inputRequests"].items()
        assert (request["method"], request["params"]["message"]) == ("elicitation/create", "Who?")
        await caller.ask("tasks/update", taskId=task.id, inputResponses={key: reply})
        await place.engine.finished(task.latest)
        assert (await caller.get(task.id))["result"]["structuredContent"] == {"result": [outcome]}


@requirement("X-29", "E-026")
@pytest.mark.parametrize(("reply", "outcome"), REPLIES)
async def test_the_parents_caller_is_asked_in_2025(server: TaskServer, reply: Any, outcome: str) -> None:
    async with calling(server, VERSION) as (_, caller):
        task_id = await caller.hand_in("parent")
        collecting = caller.collecting(task_id)
        question = await caller.question("elicitation/create")
        assert question.params["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
        await caller.reply(question, reply)
        assert (await collecting.answer())["result"]["structuredContent"] == {"result": [outcome]}


@pytest.mark.parametrize("code", [-32603, -1])
async def test_a_caller_that_answers_with_an_error_is_an_error_in_the_child(server: TaskServer, code: int) -> None:
    async with calling(server, VERSION) as (_, caller):
        task_id = await caller.hand_in("parent")
        collecting = caller.collecting(task_id)
        await caller.refuse(await caller.question(), code=code, message="No idea")
        result = (await collecting.answer())["result"]
        assert result["structuredContent"] == {"result": [f"0: error {code}"]}


async def test_two_children_that_ask_the_same_at_once_get_an_answer_each(server: TaskServer) -> None:
    async with calling(server, VERSION) as (_, caller):
        task_id = await caller.hand_in("parent", count=2)
        collecting = caller.collecting(task_id)
        first, second = await caller.question(), await caller.question()
        assert first.params["_meta"][INPUT_KEY] != second.params["_meta"][INPUT_KEY]
        assert first.params["message"] == second.params["message"] == "Who?"
        await caller.reply(second, content("Bob"))
        await caller.reply(first, content("Ann"))
        answers = (await collecting.answer())["result"]["structuredContent"]["result"]
        assert sorted(answer[3:] for answer in answers) == ["Ann", "Bob"]


async def test_a_caller_that_cannot_be_asked_is_an_error_in_the_child(server: TaskServer) -> None:
    async with served(server) as place:
        caller = await place.memory(VERSION, {})
        result = await caller.collect(await caller.hand_in("parent"))
        assert wire_text_of(result) == "0: error -32021"


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_child_may_ask_a_model(server: TaskServer) -> None:
    @server.tool(task=True)
    async def write(n: int, ctx: Context) -> str:
        asking = [types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Write"))]
        answer = await ctx.session.create_message(asking, max_tokens=9)  # pyright: ignore[reportDeprecated]
        assert isinstance(answer.content, types.TextContent)
        return answer.content.text

    async with server.started():
        task = await server.call_tool("parent", {"tool": "write"}, task_meta=TASK)
        ((_, request),) = (await asked(task)).input_requests.items()
        assert request.method == "sampling/createMessage"
        await task.send_input("accept", "A poem")
        assert said(await task.result(PATIENCE)) == ["A poem"]


# What becomes of a question


async def first_child(server: TaskServer, parent: LocalTask[Any]) -> LocalTask[Any]:
    return (await server.list_tasks(parent.latest.as_owner)).tasks[-1]


async def test_a_question_of_a_child_that_is_cancelled_is_withdrawn(server: TaskServer) -> None:
    @server.tool(task=True)
    async def tolerant(ctx: Context) -> str:
        return (await (await server.call_tool("child", {"n": 0}, ctx, task_meta=TASK)).wait()).status.value

    async with server.started():
        task = await server.call_tool("tolerant", task_meta=TASK)
        await asked(task)
        await (await first_child(server, task)).cancel()
        assert text_of(await task.result(PATIENCE)) == "cancelled"


async def test_a_question_that_a_child_withdraws_is_withdrawn(server: TaskServer) -> None:
    given_up, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def hasty(n: int, ctx: TaskContext) -> str:
        asking = asyncio.ensure_future(ctx.elicit("Quick!", {"type": "object"}))
        await given_up.wait()
        asking.cancel()
        await go_on.wait()
        return "gave up"

    async with server.started():
        task = await server.call_tool("parent", {"tool": "hasty"}, task_meta=TASK)
        await asked(task)
        given_up.set()
        assert (await until(task, lambda now: not now.input_requests)).status is Status.WORKING
        go_on.set()
        assert said(await task.result(PATIENCE)) == ["gave up"]


async def test_a_question_may_be_answered_at_the_child_itself(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        await asked(task)
        await (await first_child(server, task)).send_input("accept", {"name": "Ann"})
        assert said(await task.result(PATIENCE)) == ["0: Ann"]
        assert task.latest.input_requests == {}


async def test_two_may_wait_for_a_child_that_asks(server: TaskServer) -> None:
    @server.tool(task=True)
    async def both(ctx: Context) -> list[str]:
        task = await server.call_tool("child", {"n": 0}, ctx, task_meta=TASK)
        return [text_of(result) for result in await asyncio.gather(task.result(), task.result())]

    async with server.started():
        task = await server.call_tool("both", task_meta=TASK)
        assert len((await asked(task)).input_requests) == 1
        await task.send_input("accept", {"name": "Ann"})
        assert said(await task.result(PATIENCE)) == ["0: Ann", "0: Ann"]


async def test_one_of_two_who_wait_for_a_child_may_go(server: TaskServer) -> None:
    leaves, left = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def both(ctx: Context) -> str:
        task = await server.call_tool("child", {"n": 0}, ctx, task_meta=TASK)
        first = asyncio.ensure_future(task.result())
        second = asyncio.ensure_future(task.result())
        await leaves.wait()
        first.cancel()
        await asyncio.wait((first,))
        left.set()
        return text_of(await second)

    async with server.started():
        task = await server.call_tool("both", task_meta=TASK)
        before = await asked(task)
        leaves.set()
        async with asyncio.timeout(PATIENCE):
            await left.wait()
        assert (await task.fetch()).input_requests == before.input_requests
        await task.send_input("accept", {"name": "Ann"})
        assert text_of(await task.result(PATIENCE)) == "0: Ann"


@requirement("S-037")
async def test_a_parent_that_looks_again_and_again_does_not_take_back_what_is_being_asked(server: TaskServer) -> None:
    @server.tool(task=True)
    async def restless(ctx: TaskContext) -> str:
        task = await server.call_tool("child", {"n": 0}, ctx, task_meta=TASK)
        while not (await task.wait(0.001)).status.is_terminal:
            await ctx.step("look", int)
        return text_of(await task)

    async def looks(task: LocalTask[Any]) -> int:
        return len(await server.tasks.running.engine.journal(task.id))

    async with server.started():
        task = await server.call_tool("restless", task_meta=TASK)
        before = await asked(task)
        had = await looks(task)
        while await looks(task) < had + 3:
            assert (await task.changed()).input_requests == before.input_requests
        await task.send_input("accept", {"name": "Ann"})
        assert text_of(await task.result(PATIENCE)) == "0: Ann"


async def test_what_is_still_being_asked_when_a_parent_ends_is_taken_back(server: TaskServer) -> None:
    @server.tool(task=True)
    async def hasty(ctx: Context) -> str:
        task = await server.call_tool("child", {"n": 0}, ctx, task_meta=TASK)
        while not (await task.wait(0.001)).input_requests:
            pass
        return task.id

    async with server.started():
        task = await server.call_tool("hasty", task_meta=TASK)
        child_id = text_of(await task.result(PATIENCE))
        assert (await task.fetch()).input_requests == {}
        child = await server.task(child_id, task.latest.as_owner)
        assert child.latest.status is Status.INPUT_REQUIRED  # it goes on, and may be answered where it is
        await child.send_input("accept", {"name": "Ann"})
        assert text_of(await child.result(PATIENCE)) == "0: Ann"


# Parents that are parked meanwhile


async def test_a_parked_parent_is_run_again_with_the_answer() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(park_after=timedelta()), concurrency=1)
    add_tools(server, resumable=True)
    async with server.started():
        task = await server.call_tool("parent", {"count": 2}, task_meta=TASK)
        for number in range(2):
            await until(task, lambda now: bool(now.input_requests) and now.lease is None)
            await task.send_input("accept", {"name": f"name {number}"}, question=next(iter(task.latest.input_requests)))
        answers = said(await task.result(PATIENCE))
        assert {answer[3:] for answer in answers} == {"name 0", "name 1"}
        assert task.latest.attempt > 1
        assert len((await server.list_tasks(task.latest.as_owner)).tasks) == 2
