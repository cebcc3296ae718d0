"""How tasks of FastMCP and of the Python SDK 1.x end when they do not end well."""

from __future__ import annotations

import pytest

from coatcheck import Status
from coatcheck.errors import InputRequired, InvalidArgument, TaskCancelled, TaskLost, ToolFailed, UnknownTool
from tests.interop_servers.clients import Connect
from tests.interop_servers.servers import Target
from tests.interop_servers.test_tasks import both, in_all_ways, on_fastmcp, on_sdk_v1

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


# Failures


@both
async def test_a_tool_that_fails_is_said_to_fail_in_its_own_words(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="This tool always fails"):
            await client.call("fail")


@on_fastmcp
async def test_the_result_of_a_tool_that_failed_can_be_had(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        result = await client.call("fail", raise_on_error=False)
    assert (result.is_error, result.text) == (True, "This tool always fails")


@on_sdk_v1
async def test_a_result_that_says_it_failed_raises(target: Target, connect: Connect) -> None:
    """There, such a task is completed."""
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="This tool always fails"):
            await client.call("report_failure")


@on_fastmcp
async def test_an_error_of_the_protocol_keeps_its_code_and_data(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="This tool never has a result") as raised:
            await client.call("break_protocol")
    assert (raised.value.code, raised.value.data) == (-32050, {"why": "it was made so"})


@on_sdk_v1
async def test_an_error_of_which_only_the_message_is_left_is_told(target: Target, connect: Connect) -> None:
    """There, `tasks/result` of a failed task is an empty result, and all that is known is the message of its status."""
    async with connect(target) as client:
        with pytest.raises(ToolFailed, match="This tool never has a result"):
            await client.call("break_protocol")


@both
async def test_a_failed_tool_is_an_end_for_whoever_waits(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("fail")
        assert (await handle.wait()).is_terminal
        with pytest.raises(ToolFailed, match="This tool always fails"):
            await handle.result()


# Refusals


@both
async def test_a_tool_that_is_not_there_is_unknown(target: Target, connect: Connect) -> None:
    """All these servers answer with a result that says so in words, if they answer at all."""
    async with connect(target) as client:
        with pytest.raises(UnknownTool, match="nothing"):
            await client.call("nothing")


@both
async def test_arguments_that_do_not_fit_are_refused_in_the_words_of_the_server(
    target: Target, connect: Connect
) -> None:
    async with connect(target) as client:
        with pytest.raises((InvalidArgument, ToolFailed), match="'x'"):
            await client.call("add", {"a": "x", "b": 3})


@both
async def test_a_task_that_is_not_there_is_lost(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(TaskLost):
            await client.handle("nothing").status()


@on_sdk_v1
async def test_a_task_whose_lifetime_is_over_is_lost(target: Target, connect: Connect) -> None:
    """There, time begins again when the task ends."""
    async with connect(target) as client:
        handle = await client.start("add", {"a": 2, "b": 3}, ttl=0.2)

        async def look() -> None:
            while True:
                await handle.status()

        with pytest.raises(TaskLost):
            await look()


# Cancellation


@both
async def test_a_task_is_cancelled(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("slow", {"seconds": 30})
        assert (await handle.cancel()).status is Status.CANCELLED
        assert (await handle.status()).status is Status.CANCELLED


@in_all_ways
async def test_a_cancelled_task_has_no_result(target: Target, connect: Connect) -> None:
    """SDK 1.x has an empty one."""
    async with connect(target) as client:
        handle = await client.start("slow", {"seconds": 30})
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result()


@both
async def test_a_task_that_is_cancelled_twice_stays_cancelled(target: Target, connect: Connect) -> None:
    """FastMCP takes note of the second time, SDK 1.x refuses it."""
    async with connect(target) as client:
        handle = await client.start("slow", {"seconds": 30})
        await handle.cancel()
        assert (await handle.cancel()).status is Status.CANCELLED


@both
async def test_a_task_that_is_done_stays_so_when_it_is_cancelled(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("add", {"a": 2, "b": 3})
        await handle.wait()
        assert (await handle.cancel()).status is Status.COMPLETED
        assert (await handle.result()).text == "5"


@both
async def test_whoever_waits_learns_that_a_task_was_cancelled(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("slow", {"seconds": 30})
        seen: list[Status] = []
        async for snapshot in handle.events():
            seen.append(snapshot.status)
            if len(seen) == 1:
                await client.handle(handle.id).cancel()
    assert seen[-1] is Status.CANCELLED
    assert set(seen[:-1]) == {Status.WORKING}


@on_fastmcp
async def test_a_task_that_asks_is_cancelled(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("ask")
        with pytest.raises(InputRequired):
            await handle.result()
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result()
