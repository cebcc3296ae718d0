"""Answering what a task asks, from your own code."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import Context

from coatcheck import AlreadyFinished, InvalidAnswer, InvalidArgument, Status
from coatcheck.server import LocalTask, TaskContext, TaskServer
from tests.local.stage import TASK, Name, asked, text_of, until
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(autouse=True)
def tools(server: TaskServer) -> None:
    @server.tool(task=True)
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action

    @server.tool(task=True)
    async def travel(ctx: TaskContext) -> list[str]:
        answers = await asyncio.gather(ctx.elicit("From?", CITY), ctx.elicit("To?", CITY))
        return [answer["content"]["city"] for answer in answers]


@requirement("E-017", "R-21")
@pytest.mark.parametrize(
    ("action", "content", "said"),
    [
        ("accept", {"name": "Ann"}, "Hello Ann"),
        ("decline", None, "decline"),
        ("cancel", None, "cancel"),
        ("decline", {"name": "Ann"}, "decline"),
    ],
)
async def test_a_question_is_answered_with_an_action_and_content(
    server: TaskServer, action: Any, content: Any, said: str
) -> None:
    async with server.started():
        task = await server.call_tool("greet", task_meta=TASK)
        assert (await asked(task)).status is Status.INPUT_REQUIRED
        await task.send_input(action, content)
        assert text_of(await task) == said


@requirement("E-017")
@pytest.mark.parametrize("content", [{}, {"name": 7}, None])
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    server: TaskServer, content: Any
) -> None:
    async with server.started():
        task = await server.call_tool("greet", task_meta=TASK)
        before = await asked(task)
        with pytest.raises(InvalidAnswer, match="still open"):
            await task.send_input("accept", content)
        assert (await task.fetch()).input_requests == before.input_requests
        await task.send_input("accept", {"name": "Ann"})
        assert text_of(await task) == "Hello Ann"


async def test_an_action_is_one_of_three(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("greet", task_meta=TASK)
        await asked(task)
        wrong: Any = "maybe"
        with pytest.raises(InvalidAnswer):
            await task.send_input(wrong)
        await task.send_input("decline")
        assert text_of(await task) == "decline"


async def test_of_several_questions_one_must_be_named(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("travel", task_meta=TASK)
        open_now = (await asked(task, 2)).input_requests
        for question in (None, "nonsense"):
            with pytest.raises(InvalidArgument, match="Say which question is answered") as refused:
                await task.send_input("accept", {"city": "Rome"}, question=question)
            assert all(key in str(refused.value) for key in open_now)
        first, second = sorted(open_now, key=lambda key: b"From?" not in bytes(open_now[key].params))
        await task.send_input("accept", {"city": "Rome"}, question=first)
        assert list((await task.fetch()).input_requests) == [second]
        await task.send_input("accept", {"city": "Oslo"})
        assert (await task).structured_content == {"result": ["Rome", "Oslo"]}


async def test_several_questions_are_answered_at_once_in_the_protocols_words(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("travel", task_meta=TASK)
        keys = (await asked(task, 2)).input_requests
        fits = {"action": "accept", "content": {"city": "Rome"}}
        first, second = keys
        with pytest.raises(InvalidAnswer):
            await task.answer({first: fits, second: {"action": "accept"}})
        assert (await task.fetch()).input_requests == keys
        await task.answer(dict.fromkeys(keys, fits))
        assert (await task).structured_content == {"result": ["Rome", "Rome"]}


async def test_a_task_that_asks_nothing_takes_no_answer(server: TaskServer) -> None:
    gate = asyncio.Event()

    @server.tool(task=True)
    async def hold() -> str:
        await gate.wait()
        return "held"

    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        with pytest.raises(InvalidArgument, match=rf"open in task {task.id}: none"):
            await task.send_input("accept", {"name": "Ann"})
        gate.set()
        await task
        with pytest.raises(AlreadyFinished):
            await task.send_input("accept", {"name": "Ann"})
        with pytest.raises(AlreadyFinished):
            await task.answer({"any": {"action": "cancel"}})


async def test_of_two_answers_the_first_counts(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("greet", task_meta=TASK)
        await asked(task)
        other = await server.task(task.id)
        await task.send_input("accept", {"name": "Ann"})
        with pytest.raises((InvalidArgument, AlreadyFinished)):
            await other.send_input("accept", {"name": "Bob"})
        assert text_of(await task) == "Hello Ann"


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize(
    "content",
    ["A poem", {"role": "assistant", "model": "m", "content": {"type": "text", "text": "A poem"}}],
    ids=["text", "object"],
)
async def test_what_a_model_is_asked_may_be_answered_with_text(server: TaskServer, content: Any) -> None:
    @server.tool(task=True)
    async def write(ctx: Context) -> str:
        said = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
            [types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Write"))], max_tokens=9
        )
        assert isinstance(said.content, types.TextContent)
        return said.content.text

    async with server.started():
        task = await server.call_tool("write", task_meta=TASK)
        ((_, request),) = (await asked(task)).input_requests.items()
        assert request.method == "sampling/createMessage"
        with pytest.raises(InvalidArgument, match="answered with an object"):
            await task.send_input()
        await task.send_input("accept", content)
        assert text_of(await task) == "A poem"


async def test_a_task_of_nobody_may_ask_whatever_it_likes(server: TaskServer) -> None:
    @server.tool(task=True)
    async def look(ctx: Context) -> str:
        return (await ctx.elicit_url("Please pay", "https://pay.example/1", "payment-1")).action

    async with server.started():
        task: LocalTask[Any] = await server.call_tool("look", task_meta=TASK)
        await until(task, lambda now: bool(now.input_requests))
        await task.send_input("accept")
        assert text_of(await task.result()) == "accept"
