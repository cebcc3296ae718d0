"""Servers in TypeScript as they were published: the one that has everything, and the SDK's example of tasks."""

from __future__ import annotations

import mcp_types as types
import pytest

from coatcheck import Status
from coatcheck.client import Snapshot
from coatcheck.errors import InvalidArgument, ServerError, TaskCancelled, TaskLost, ToolFailed, UnknownTool
from tests.interop_servers.clients import Answers, Connect, progress, together
from tests.interop_servers.servers import Target

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

everything = pytest.mark.parametrize("target", ["everything-http"], indirect=True)
everything_in_all_ways = pytest.mark.parametrize("target", ["everything-http", "everything-stdio"], indirect=True)
interactive = pytest.mark.parametrize("target", ["interactive-http"], indirect=True)
RESEARCH = "simulate-research-query"
PYTHON = {"topic": "python", "ambiguous": True}
SNAKE = {"interpretation": "snake"}
CONFIRM = {"confirm": True}


# The one that has everything: a research of four seconds is its only task


@everything
async def test_everything_says_which_tools_are_tasks(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (client.protocol_version, client.has_tasks) == ("2025-11-25", True)
        tools = {tool.name: tool.task_support for tool in await client.tools()}
    assert (tools[RESEARCH], tools["echo"]) == ("required", "forbidden")


@everything_in_all_ways
async def test_everything_researches_and_asks_what_was_meant(target: Target, connect: Connect) -> None:
    answers, heard = Answers(SNAKE), list[Snapshot]()
    async with connect(target, **answers.callbacks) as client:
        result = await client.call(RESEARCH, PYTHON, on_change=heard.append)
    assert result.text.startswith("# Research Report: python (snake)")
    assert len(answers.questions) == 1
    messages = {snapshot.message for snapshot in heard}
    assert {"Analyzing content...", "Generating report..."} <= messages
    statuses = [snapshot.status for snapshot in heard]
    assert Status.INPUT_REQUIRED in statuses
    assert statuses[-1] is Status.COMPLETED


@everything
async def test_everything_researches_two_things_at_once(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        calls = (client.call(RESEARCH, {"topic": topic}) for topic in ("hats", "coats"))
        texts = [result.text.splitlines()[0] for result in await together(*calls)]
    assert texts == ["# Research Report: hats", "# Research Report: coats"]


@everything_in_all_ways
async def test_everything_stops_a_research(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start(RESEARCH, {"topic": "hats"})
        assert (await handle.cancel()).status is Status.CANCELLED
        assert (await handle.cancel()).status is Status.CANCELLED
        with pytest.raises(TaskCancelled):
            await handle.result()


@everything
async def test_everything_knows_no_such_tool(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(UnknownTool, match="nothing"):
            await client.call("nothing")


@everything
async def test_everything_refuses_arguments_that_do_not_fit(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises((InvalidArgument, ToolFailed), match="expected string"):
            await client.call("echo", {"message": 5})


@everything
async def test_everything_refuses_a_task_whose_arguments_do_not_fit(target: Target, connect: Connect) -> None:
    """It says so in words that nobody can make out, but it says so."""
    async with connect(target) as client:
        with pytest.raises(InvalidArgument):
            await client.start(RESEARCH, {"topic": 5})


@everything
async def test_everything_has_no_task_of_that_name(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(TaskLost):
            await client.handle("nothing").status()


@everything
async def test_everything_echoes(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        result = await client.call("echo", {"message": "hello"})
    assert (result.text, result.is_error) == ("Echo: hello", False)


@everything_in_all_ways
async def test_everything_reports_progress_of_a_call_that_is_no_task(target: Target, connect: Connect) -> None:
    heard: list[Snapshot] = []
    async with connect(target) as client:
        arguments = {"duration": 1, "steps": 4}
        result = await client.call("trigger-long-running-operation", arguments, on_change=heard.append)
    assert result.text.startswith("Long running operation completed")
    assert progress(heard) == [(step, 4) for step in range(1, 5)]


@everything_in_all_ways
async def test_everything_asks_in_a_call_that_is_no_task(target: Target, connect: Connect) -> None:
    answers = Answers({"name": "Ada"})
    async with connect(target, **answers.callbacks) as client:
        result = await client.call("trigger-elicitation-request")
        sampled = await client.call("trigger-sampling-request", {"prompt": "hats"})
    content = result.content[1]
    assert isinstance(content, types.TextContent)
    assert "Ada" in content.text
    assert "Something" in sampled.text


# The SDK's example: it has two tools, both ask, and nothing of it is ever announced


@interactive
async def test_the_example_asks_whether_to_delete(target: Target, connect: Connect) -> None:
    """It asks on the stream that is always open, not on the one of whoever waits for the result."""
    answers = Answers(CONFIRM)
    async with connect(target, **answers.callbacks) as client:
        result = await client.call("confirm_delete", {"filename": "notes.txt"})
    assert result.text == "Deleted 'notes.txt'"
    assert answers.questions == ["Are you sure you want to delete 'notes.txt'?"]


@interactive
async def test_the_example_asks_a_client_that_only_polls(target: Target, connect: Connect) -> None:
    async with connect(target, push=False, **Answers(CONFIRM).callbacks) as client:
        assert (await client.call("confirm_delete", {"filename": "notes.txt"})).text == "Deleted 'notes.txt'"


@interactive
async def test_the_example_takes_no_for_an_answer(target: Target, connect: Connect) -> None:
    async with connect(target, **Answers(action="decline").callbacks) as client:
        assert (await client.call("confirm_delete", {"filename": "notes.txt"})).text == "Deletion cancelled"


@interactive
async def test_the_example_writes_what_a_model_says(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("write_haiku", {"topic": "coats"})).text == "Haiku:\nSomething"
    assert answers.questions == ["Write a haiku about coats"]


@interactive
async def test_the_example_asks_for_two_tasks_at_once(target: Target, connect: Connect) -> None:
    answers = Answers(CONFIRM)
    async with connect(target, **answers.callbacks) as client:
        calls = (client.call("confirm_delete", {"filename": name}) for name in ("a", "b"))
        assert [result.text for result in await together(*calls)] == ["Deleted 'a'", "Deleted 'b'"]
    assert len(answers.questions) == 2


@interactive
async def test_the_example_cannot_cancel_and_says_so(target: Target, connect: Connect) -> None:
    async with connect(target, **Answers(CONFIRM).callbacks) as client:
        handle = await client.start("confirm_delete", {"filename": "notes.txt"})
        with pytest.raises(ServerError) as raised:
            await handle.cancel()
        assert raised.value.code == -32601
        assert (await handle.result()).text == "Deleted 'notes.txt'"


@interactive
async def test_the_example_is_not_asked_for_a_tool_it_does_not_have(target: Target, connect: Connect) -> None:
    """It would make a task of it that never ends."""
    async with connect(target) as client:
        with pytest.raises(UnknownTool, match="nothing"):
            await client.call("nothing")


@interactive
async def test_the_example_has_no_task_of_that_name(target: Target, connect: Connect) -> None:
    """It says so with the code for an error of its own."""
    async with connect(target) as client:
        with pytest.raises(TaskLost):
            await client.handle("nothing").status()


@interactive
async def test_the_example_gives_a_task_to_another_client(target: Target, connect: Connect) -> None:
    async with connect(target, **Answers(CONFIRM).callbacks) as client:
        handle = await client.start("confirm_delete", {"filename": "notes.txt"})
        await handle.detach()
    async with connect(target, **Answers(CONFIRM).callbacks) as client:
        [resumed] = await client.resume()
        assert resumed.id == handle.id
        assert (await resumed.status()).status is Status.INPUT_REQUIRED
