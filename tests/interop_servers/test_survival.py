"""What is left of tasks when clients leave, sessions end and servers die: each kind of server keeps them in its way."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from coatcheck import Status
from coatcheck.errors import CannotConnect, CoatcheckError, TaskCancelled, TaskLost
from tests.databases.redis import Redis
from tests.interop_servers.clients import Answers, Connect
from tests.interop_servers.servers import Target, over_http
from tests.interop_servers.test_tasks import both, on_fastmcp, on_sdk_v1
from tests.processes import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

fastmcp = pytest.mark.parametrize("target", ["fastmcp-http", "fastmcp_redis-http"], indirect=True)


# Clients leave


@fastmcp
async def test_another_client_takes_up_a_task_that_was_left(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        left = await client.start("silent", {"seconds": 1})
        await left.detach()
    async with connect(target) as client:
        [handle] = await client.resume()
        assert (handle.id, handle.tool) == (left.id, "silent")
        assert (await handle.result()).text.startswith("It took 1")
        assert await client.resume() == []


@fastmcp
async def test_what_was_not_waited_for_is_not_lost(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        with pytest.raises(TimeoutError):
            await client.call("silent", {"seconds": 1}, timeout=0.2)
        [handle] = await client.resume()
        assert (await handle.result()).text.startswith("It took 1")


@on_fastmcp
async def test_another_client_answers_what_a_task_asks_that_was_left(
    target: Target, connect: Connect, answers: Answers
) -> None:
    async with connect(target) as client:
        left = await client.start("ask")
        await left.detach()
    async with connect(target, **answers.callbacks) as client:
        [handle] = await client.resume()
        assert (await handle.result()).text == "Hello, Ada!"


@pytest.mark.parametrize("target", ["sdk_v1-http", "sdk_v1-stdio"], indirect=True)
async def test_a_task_that_belongs_to_a_session_is_lost_with_it(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        left = await client.start("silent", {"seconds": 1})
        await left.detach()
    async with connect(target) as client:
        [handle] = await client.resume()
        with pytest.raises(TaskLost):
            await handle.result()


@both
async def test_whoever_still_waits_when_the_client_is_closed_is_told(target: Target, connect: Connect) -> None:
    async with connect(target) as client:
        handle = await client.start("silent", {"seconds": 5})
        waiting = asyncio.create_task(handle.result())
        await handle.wait(timeout=0.3)
    async with asyncio.timeout(4):
        with pytest.raises(CoatcheckError):
            await waiting


# Servers die


async def test_a_task_outlives_its_server_and_is_waited_for_meanwhile(connect: Connect) -> None:
    """FastMCP begins it again, from what Redis knows."""
    with closing(Redis()) as redis, over_http("fastmcp", redis.address) as (url, process):
        async with connect(url, patience=PATIENCE) as client:
            handle = await client.start("silent", {"seconds": 1})
            waiting = asyncio.create_task(handle.result())
            await handle.wait(timeout=0.3)
            process.kill()
            process.start()
            assert (await waiting).text.startswith("It took 1")


async def test_a_task_that_was_kept_in_memory_is_lost_with_its_server(connect: Connect) -> None:
    with over_http("fastmcp") as (url, process):
        async with connect(url, patience=PATIENCE) as client:
            handle = await client.start("silent", {"seconds": 30})
            process.kill()
            process.start()
            with pytest.raises(TaskLost):
                await handle.result()
            assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


async def test_a_server_that_stays_away_is_given_up(connect: Connect) -> None:
    with over_http("fastmcp") as (url, process):
        async with connect(url, patience=1.0) as client:
            handle = await client.start("silent", {"seconds": 30})
            process.kill()
            with pytest.raises(CannotConnect):
                await handle.result()


@pytest.mark.parametrize("target", ["sdk_v1-stdio"], indirect=True)
async def test_a_task_is_lost_when_another_that_is_cancelled_takes_the_server_down(
    target: Target, connect: Connect
) -> None:
    """SDK 1.x dies of a task that was cancelled and comes to its end all the same."""
    async with connect(target) as client:
        cancelled = await client.start("silent", {"seconds": 0.5})
        bystander = await client.start("silent", {"seconds": 30})
        assert (await cancelled.cancel()).status is Status.CANCELLED
        with pytest.raises(TaskCancelled):
            await cancelled.result()
        with pytest.raises(TaskLost):
            await bystander.result()
        assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


async def test_a_session_that_another_took_down_is_begun_again(connect: Connect) -> None:
    """Over HTTP, SDK 1.x carries on when it dies of such a task, but for the session that began last."""
    with over_http("sdk_v1") as (url, _):
        async with connect(url) as culprit, connect(url) as client:
            bystander = await client.start("silent", {"seconds": 30})
            cancelled = await culprit.start("silent", {"seconds": 0.5})
            await cancelled.cancel()
            with pytest.raises(TaskLost):
                await bystander.result()
            assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


# Generations


@on_fastmcp
async def test_fastmcp_has_no_tasks_for_the_older_generation(target: Target, connect: Connect) -> None:
    async with connect(target, mode="2025-11-25") as client:
        assert (client.protocol_version, client.has_tasks) == ("2025-11-25", False)
        assert (await client.call("add", {"a": 2, "b": 3})).text == "5"


@on_sdk_v1
async def test_the_old_sdk_does_not_speak_the_newer_generation(target: Target, connect: Connect) -> None:
    with pytest.raises(CannotConnect):
        async with connect(target, mode="2026-07-28"):
            pass


@pytest.mark.parametrize("target", ["sdk_v1-http"], indirect=True)
async def test_a_server_that_sends_its_clients_elsewhere_is_followed(target: Target, connect: Connect) -> None:
    assert isinstance(target, str)
    async with connect(target.replace("/mcp", "/mounted")) as client:
        assert (await client.call("add", {"a": 2, "b": 3})).text == "5"
