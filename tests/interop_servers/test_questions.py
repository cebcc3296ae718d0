"""What tasks of FastMCP and of the Python SDK 1.x ask, while someone waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from coatcheck import Status
from coatcheck.client import Question
from coatcheck.errors import InputRequired, ToolFailed
from tests.interop_servers.clients import Answers, Connect, together
from tests.interop_servers.servers import Target
from tests.interop_servers.test_tasks import SERVERS, both, on_fastmcp, on_sdk_v1
from tests.processes import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@both
async def test_an_elicitation_is_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("ask")).text == "Hello, Ada!"
    assert answers.questions == ["What is your name?"]


@both
async def test_an_elicitation_is_declined(target: Target, connect: Connect) -> None:
    answers = Answers(action="decline")
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("ask")).text == "They chose to decline"


@both
async def test_one_question_after_the_other_is_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("ask_again")).text == "Hello, Ada! and Hello, Ada!"
    assert answers.questions == ["The first?", "The second?"]


@on_fastmcp
async def test_two_questions_at_once_are_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("ask_twice")).text == "Hello, Ada! and Hello, Ada!"
    assert sorted(answers.questions) == ["The first?", "The second?"]


@both
async def test_sampling_is_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("sample")).text == "It said: Something"
    assert answers.questions == ["Say something"]


@both
async def test_whoever_waits_with_a_handle_is_asked(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        handle = await client.start("ask")
        assert (await handle.wait(timeout=PATIENCE)).status is Status.COMPLETED
        assert (await handle.result()).text == "Hello, Ada!"
    assert answers.questions == ["What is your name?"]


@pytest.mark.parametrize("target", [*SERVERS, "fastmcp-stdio", "sdk_v1-stdio"], indirect=True)
async def test_tasks_that_ask_at_the_same_time_are_each_answered(
    target: Target, connect: Connect, answers: Answers
) -> None:
    async with connect(target, **answers.callbacks) as client:
        results = await together(*(client.call("ask") for _ in range(3)))
    assert [result.text for result in results] == ["Hello, Ada!"] * 3
    assert answers.questions == ["What is your name?"] * 3


@pytest.mark.parametrize("target", ["fastmcp_redis-http"], indirect=True)
async def test_an_answer_under_way_is_not_taken_for_the_end(target: Target, connect: Connect, answers: Answers) -> None:
    """FastMCP says that a task is completed, without a result, if it is looked at while an answer to it is stored."""
    async with connect(target, **answers.callbacks) as client:
        results = await together(*(client.call("ask") for _ in range(24)))
    assert {result.text for result in results} == {"Hello, Ada!"}


@both
async def test_whoever_takes_long_to_answer_is_asked_once(target: Target, connect: Connect) -> None:
    """The question is still there at each poll meanwhile."""
    asked: list[str] = []
    decided = asyncio.Event()

    async def hesitate(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        await decided.wait()
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with connect(target, elicitation_callback=hesitate) as client:
        calling = asyncio.create_task(client.call("ask"))
        await asyncio.wait({calling}, timeout=1.5)
        decided.set()
        assert (await calling).text == "Hello, Ada!"
    assert asked == ["What is your name?"]


@both
async def test_two_who_wait_for_a_task_are_asked_once(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        handle = await client.start("ask")
        results = await together(handle.result(), client.handle(handle.id).result())
    assert [result.text for result in results] == ["Hello, Ada!"] * 2
    assert answers.questions == ["What is your name?"]


@on_fastmcp
async def test_a_question_that_nobody_can_answer_is_handed_on(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("ask")
        with pytest.raises(InputRequired) as raised:
            await handle.result()
        [(key, question)] = raised.value.questions.items()
        assert (await handle.status()).questions.keys() == {key}
        await handle.answer({key: {"action": "accept", "content": {"name": "Ada"}}})
        assert (await handle.result()).text == "Hello, Ada!"
    assert isinstance(question, Question)
    assert (question.method, question.params["message"]) == ("elicitation/create", "What is your name?")


@on_fastmcp
async def test_questions_are_answered_one_by_one(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("ask_twice")
        with pytest.raises(InputRequired):
            await handle.result()
        open_ = (await handle.status()).questions
        assert len(open_) == 2
        for key in open_:
            await handle.answer({key: {"action": "accept", "content": {"name": "Ada"}}})
        assert (await handle.result()).text == "Hello, Ada! and Hello, Ada!"


@on_sdk_v1
async def test_a_client_that_cannot_be_asked_is_told_so(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="Client does not support elicitation capability"):
            await client.call("ask")


@on_sdk_v1
async def test_an_error_in_place_of_an_answer_reaches_the_tool(target: Target, connect: Connect) -> None:
    async def refuse(_: Any, params: types.ElicitRequestParams) -> types.ErrorData:
        return types.ErrorData(code=-32055, message="Nobody is here")

    async with connect(target, elicitation_callback=refuse) as client:
        with pytest.raises(ToolFailed, match="Nobody is here"):
            await client.call("ask")
