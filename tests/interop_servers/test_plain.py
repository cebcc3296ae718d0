"""Servers that know no tasks, on the SDK of today and on the one of yesterday: calls are calls, and made no worse."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.client import Snapshot
from coatcheck.errors import Interrupted, InvalidArgument, ServerError, ToolFailed, UnknownTool
from tests.interop_servers.clients import Answers, Connect, progress, together
from tests.interop_servers.servers import Target, over_http

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

OVER_HTTP, OVER_STDIO = ("plain-http", "plain_v1-http"), ("plain-stdio", "plain_v1-stdio")
both = pytest.mark.parametrize("target", OVER_HTTP, indirect=True)
in_all_ways = pytest.mark.parametrize("target", [*OVER_HTTP, *OVER_STDIO], indirect=True)
new = pytest.mark.parametrize("target", ["plain-http"], indirect=True)


@both
async def test_a_server_without_tasks_is_known_as_one(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert not client.has_tasks
        assert {tool.task_support for tool in await client.tools()} == {"forbidden"}


@both
async def test_a_quick_tool_is_called(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        result = await client.call("add", {"a": 2, "b": 3})
    assert (result.text, result.data) == ("5", 5)


@in_all_ways
async def test_a_slow_tool_reports_progress(target: Target, connect: Connect) -> None:
    heard: list[Snapshot] = []
    async with connect(target) as client:
        result = await client.call("slow", {"seconds": 1}, on_change=heard.append)
    assert result.text.startswith("It took 1")
    assert progress(heard) == [(step, 10) for step in range(1, 11)]
    assert next(snapshot.message for snapshot in heard if snapshot.progress) == "Step 1 of 10"


@in_all_ways
async def test_an_elicitation_is_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("ask")).text == "Hello, Ada!"
    assert answers.questions == ["What is your name?"]


@in_all_ways
async def test_sampling_is_answered(target: Target, connect: Connect, answers: Answers) -> None:
    async with connect(target, **answers.callbacks) as client:
        assert (await client.call("sample")).text == "It said: Something"
    assert answers.questions == ["Say something"]


@both
async def test_a_tool_that_fails_is_said_to_fail_in_its_own_words(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="This tool always fails"):
            await client.call("fail")


@new
async def test_an_error_of_the_protocol_keeps_its_code_and_data(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(ServerError, match="This tool never has a result") as raised:
            await client.call("break_protocol")
    assert (raised.value.code, raised.value.data) == (-32050, {"why": "it was made so"})


@both
async def test_a_tool_that_is_not_there_is_unknown(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(UnknownTool, match="nothing"):
            await client.call("nothing")


@both
async def test_arguments_that_do_not_fit_are_refused_in_the_words_of_the_server(
    target: Target, connect: Connect
) -> None:
    async with connect(target) as client:
        with pytest.raises((InvalidArgument, ToolFailed), match="valid integer"):
            await client.call("add", {"a": "x", "b": 3})


@both
async def test_two_calls_go_on_at_once(target: Target, connect: Connect) -> None:
    """Each reports its first step before the other is done."""
    heard: list[tuple[str, float]] = []

    def hearing(name: str, snapshot: Snapshot) -> None:
        if snapshot.progress:
            heard.append((name, snapshot.progress.done))

    async with connect(target) as client:
        calls = (
            client.call("slow", {"seconds": 1}, on_change=lambda snapshot, name=name: hearing(name, snapshot))
            for name in ("first", "second")
        )
        results = await together(*calls)
    assert all(result.text.startswith("It took 1") for result in results)
    assert heard.index(("first", 1)) < heard.index(("second", 10))
    assert heard.index(("second", 1)) < heard.index(("first", 10))


@in_all_ways
async def test_a_call_that_is_given_up_leaves_the_client_usable(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.call("slow", {"seconds": 30})
        assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


@pytest.mark.parametrize("target", OVER_STDIO, indirect=True)
async def test_a_call_that_a_process_dies_of_is_interrupted(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(Interrupted, match="die"):
            await client.call("die")
        assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


@pytest.mark.parametrize("server", ["plain", "plain_v1"])
async def test_a_call_that_a_server_dies_of_is_interrupted(server: str, connect: Connect) -> None:
    with over_http(server) as (url, process):
        async with connect(url) as client:
            with pytest.raises(Interrupted, match="die"):
                await client.call("die")
            process.start()
            assert (await client.call("add", {"a": 2, "b": 3})).text == "5"
