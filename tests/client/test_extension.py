"""`TasksExtension`: tasks for the SDK's own client, with one argument."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client, MCPError

from coatcheck.client import Snapshot, TasksExtension
from tests.client.app import make
from tests.client.conftest import Person, running

pytestmark = pytest.mark.anyio
PATIENCE = 30


async def test_a_call_waits_for_its_task() -> None:
    seen: list[Snapshot] = []
    async with Client(make(), extensions=[TasksExtension(on_change=seen.append)]) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    assert seen[-1].status == "completed"
    assert not running()


async def test_what_a_task_asks_goes_to_the_clients_callbacks(person: Person) -> None:
    async with Client(make(), extensions=[TasksExtension()], elicitation_callback=person.elicit) as client:
        result = await client.call_tool("greet_two", {})
    assert result.structured_content == {"result": "number 1 and number 2"}
    assert person.asked == ["Who are you?"] * 2


async def test_a_tools_own_error_is_a_result() -> None:
    async with Client(make(), extensions=[TasksExtension()]) as client:
        assert (await client.call_tool("fail", {})).is_error


async def test_an_error_of_the_protocol_is_one_of_the_sdk() -> None:
    async with Client(make(), extensions=[TasksExtension()]) as client:
        with pytest.raises(MCPError, match="Never") as raised:
            await client.call_tool("refuse", {})
    assert raised.value.code == -32050


async def test_many_calls_at_once_each_get_their_own() -> None:
    async with Client(make(), extensions=[TasksExtension()]) as client:
        calls = (client.call_tool("add", {"a": n, "b": 0}) for n in range(20))
        results = await asyncio.gather(*calls)
    assert [result.structured_content for result in results] == [{"result": n} for n in range(20)]


@pytest.mark.parametrize("cancels", [False, True])
async def test_a_call_that_is_cancelled_cancels_its_task_only_if_asked_to(cancels: bool) -> None:
    server, is_under_way, ids = make(), asyncio.Event(), list[str]()

    def told(snapshot: Snapshot) -> None:
        ids.append(snapshot.id)
        is_under_way.set()

    extension = TasksExtension(cancel_on_abandon=cancels, on_change=told)
    async with Client(server, extensions=[extension]) as client:
        calling = asyncio.create_task(client.call_tool("gate", {"name": "one"}))
        async with asyncio.timeout(PATIENCE):
            await is_under_way.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        task = await server.tasks.running.engine.get(ids[0], None)
        assert (task.status == "cancelled") is cancels
