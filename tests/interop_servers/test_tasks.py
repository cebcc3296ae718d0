"""Tasks of FastMCP (2026-07-28) and of the Python SDK 1.x (2025-11-25): called, started, watched and waited for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import groupby

import pytest

from coatcheck import Status
from coatcheck.client import Snapshot
from tests.interop_servers.clients import Connect, together
from tests.interop_servers.servers import Target
from tests.processes import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

SERVERS = ("fastmcp-http", "sdk_v1-http")
OTHER_WAYS = ("fastmcp-stdio", "fastmcp_redis-http", "sdk_v1-stdio")
"""The same servers by another transport, or with another store: what is done with them is what matters most."""
both = pytest.mark.parametrize("target", SERVERS, indirect=True)
in_all_ways = pytest.mark.parametrize("target", [*SERVERS, *OTHER_WAYS], indirect=True)
on_fastmcp = pytest.mark.parametrize("target", ["fastmcp-http"], indirect=True)
on_sdk_v1 = pytest.mark.parametrize("target", ["sdk_v1-http"], indirect=True)


# What a server offers


@on_fastmcp
async def test_fastmcp_has_tasks_of_the_newer_generation(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (client.protocol_version, client.has_tasks) == ("2026-07-28", True)
        assert client.server_info
        assert client.server_info.name == "fastmcp"


@on_sdk_v1
async def test_the_old_sdk_has_tasks_of_the_older_generation(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (client.protocol_version, client.has_tasks) == ("2025-11-25", True)
        assert client.server_info
        assert client.server_info.name == "sdk-v1"


@on_fastmcp
async def test_fastmcp_does_not_say_which_tools_become_tasks(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        tools = {tool.name: tool.task_support for tool in await client.tools()}
    assert set(tools) > {"add", "slow", "only_as_task", "plain"}
    assert set(tools.values()) == {"unknown"}


@on_sdk_v1
async def test_the_old_sdk_says_which_tools_become_tasks(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        tools = {tool.name: tool.task_support for tool in await client.tools()}
    assert (tools["add"], tools["only_as_task"], tools["plain"]) == ("optional", "required", "forbidden")


# Calls


@both
async def test_a_quick_tool_is_called(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        result = await client.call("add", {"a": 2, "b": 3})
    assert (result.text, result.is_error) == ("5", False)


@on_fastmcp
async def test_structured_content_comes_along(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        result = await client.call("add", {"a": 2, "b": 3})
    assert (result.data, result.structured_content) == (5, {"result": 5})


@in_all_ways
async def test_a_slow_tool_is_called_and_its_messages_are_heard(target: Target, connect: Connect) -> None:
    heard: list[Snapshot] = []
    async with connect(target) as client:
        result = await client.call("slow", {"seconds": 1.5}, on_change=heard.append)
    assert result.text == "It took 1.5 seconds"
    messages = [snapshot.message for snapshot in heard if snapshot.status is Status.WORKING and snapshot.message]
    assert len(messages) >= 2
    assert set(messages) <= {f"Step {step} of 10" for step in range(1, 11)}
    assert messages == sorted(messages, key=lambda message: int(message.split()[1]))


@both
async def test_a_tool_that_must_be_a_task_is_one(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (await client.call("only_as_task")).text == "Yes"


@both
async def test_a_tool_that_is_no_task_is_called_all_the_same(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (await client.call("plain", {"text": "as it is"})).text == "as it is"


@both
async def test_a_result_is_read_as_what_is_wanted(target: Target, connect: Connect) -> None:
    """SDK 1.x gives it as text here, FastMCP as an object around the number."""
    async with connect(target) as client:
        assert await client.call("add", {"a": 2, "b": 3}, returns=int) == 5


@both
async def test_polling_alone_will_do(target: Target, connect: Connect) -> None:
    async with connect(target, push=False) as client:
        assert (await client.call("silent", {"seconds": 0.5})).text == "It took 0.5 seconds"


@on_fastmcp
async def test_a_tool_that_is_done_at_once_is_not_waited_for_as_long_as_fastmcp_suggests(
    target: Target, connect: Connect
) -> None:
    async with connect(target) as client, asyncio.timeout(4):
        assert (await client.call("unhurried")).text == "Done"


# Handles


@both
async def test_a_task_is_started_and_its_result_collected(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 0.5})
        assert handle.id
        assert handle.tool == "silent"
        assert handle.snapshot.status is Status.WORKING
        assert (await handle.result()).text == "It took 0.5 seconds"


@both
async def test_a_handle_can_be_awaited(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        assert (await (await client.start("add", {"a": 2, "b": 3}))).text == "5"


@both
async def test_a_wait_that_times_out_ends_nothing(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 1})
        assert (await handle.wait(timeout=0.1)).status is Status.WORKING
        assert (await handle.wait(timeout=PATIENCE)).status is Status.COMPLETED
        assert (await handle.result()).text.startswith("It took 1")


@both
async def test_two_tasks_go_on_at_once(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        first = await client.start("silent", {"seconds": 1.25})
        second = await client.start("silent", {"seconds": 1.5})
        assert first.id != second.id
        assert {(await handle.status()).status for handle in (first, second)} == {Status.WORKING}
        results = await together(first.result(), second.result())
    assert [result.text for result in results] == ["It took 1.25 seconds", "It took 1.5 seconds"]


@both
async def test_a_task_is_waited_for_by_two_at_once(target: Target, connect: Connect) -> None:
    """SDK 1.x leaves the first of two that ask for a result without an answer."""
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 1})
        other = client.handle(handle.id)
        waited = await together(handle.wait(), other.wait())
        assert [snapshot.status for snapshot in waited] == [Status.COMPLETED] * 2
        results = await together(handle.result(), other.result())
    assert all(result.text.startswith("It took 1") for result in results)


@both
async def test_events_are_changes_and_end_with_the_task(target: Target, connect: Connect) -> None:
    """FastMCP dates each answer anew, though nothing has changed."""
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 1})
        seen = [snapshot.status async for snapshot in handle.events()]
    assert seen == [Status.WORKING, Status.COMPLETED]


@both
async def test_events_tell_each_message_once(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("slow", {"seconds": 1})
        seen = [(snapshot.status, snapshot.message) async for snapshot in handle.events()]
    assert seen == [key for key, _ in groupby(seen)]
    assert seen[-1][0] is Status.COMPLETED


@both
async def test_a_snapshot_says_when_and_for_how_long(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 0.2})
        snapshot = await handle.status()
        await handle.result()
    assert snapshot.id == handle.id
    assert snapshot.created_at
    assert snapshot.updated_at
    assert snapshot.created_at <= snapshot.updated_at
    assert snapshot.poll_interval


@on_sdk_v1
async def test_a_lifetime_is_asked_for(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 0.2}, ttl=60)
        assert handle.snapshot.ttl == timedelta(seconds=60)
        assert (await handle.status()).ttl == timedelta(seconds=60)
        await handle.result()
