"""A server that is told to stop: streams are ended, tasks handed on, and the exit code says that all is well."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import pytest
from mcp import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tests.cli.app import HOLDING
from tests.cli.clients import Listener, connected, hand_in, listening, value, workers_of
from tests.cli.sdk_client import collect
from tests.cli.serving import PATIENCE, Served, Serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HASTY = "tests.cli.app:hasty"
GRACE = 10
"""What running work is given to finish, but by the hasty one."""
BOUND = 10
"""Longer that one must not take, however busy the machine is: whoever sent SIGTERM sends SIGKILL next."""


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, "1"), (signal.SIGINT, "1"), (signal.SIGTERM, "2")])
async def test_a_server_that_was_told_to_stop_ends_with_exit_code_0(
    number: signal.Signals, workers: str, serve: Serving
) -> None:
    served = await serve("--workers", workers)
    if workers == "2":
        await workers_of(served)
    served.signal(number)
    assert await served.ended() == 0
    assert not any("Traceback" in line for line in served.said)


async def test_streams_are_ended_and_tasks_handed_on_when_a_server_stops(serve: Serving) -> None:
    first, listener = await serve(target=HASTY), Listener()
    async with connected(first.url, listener) as client:
        resumable, fragile = await hand_in(client, "resumable"), await hand_in(client, "fragile")
        stream = listening(client, resumable, fragile)
        await listener.hears(2, HOLDING)
        first.signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND):
            result = await stream
            assert result.meta
            assert SUBSCRIPTION_ID_META_KEY in result.meta
            await first.ended(within=BOUND)
    assert not any("Traceback" in line for line in first.said)

    second = await serve(target=HASTY)
    async with connected(second.url) as client, asyncio.timeout(PATIENCE):
        assert value(await collect(client.session, resumable)) == [first.pid, second.pid]
        with pytest.raises(MCPError, match="shut down before the tool had finished"):
            await collect(client.session, fragile)


async def test_streams_are_ended_at_once_if_nothing_else_keeps_the_server(serve: Serving) -> None:
    served = await serve()
    async with connected(served.url, Listener()) as client:
        stream = listening(client)
        await client.list_tools()
        served.signal(signal.SIGTERM)
        async with asyncio.timeout(GRACE):  # nothing runs that would need it
            await stream
            await served.ended()


async def test_streams_of_tasks_that_are_an_extension_are_ended_too(serve: Serving) -> None:
    served, listener = await serve(target="tests.cli.app:extended"), Listener()
    async with connected(served.url, listener) as client:
        stream = listening(client, await hand_in(client, "endless"))
        await listener.hears(1, HOLDING)
        served.signal(signal.SIGTERM)
        async with asyncio.timeout(GRACE / 2):
            await stream


async def test_a_task_outlives_a_server_that_was_killed(serve: Serving) -> None:
    first = await serve()
    async with connected(first.url) as client:
        resumable, fragile = await hand_in(client, "resumable"), await hand_in(client, "fragile")
    await hear_and_kill(first, resumable, fragile)

    second = await serve()
    async with connected(second.url) as client, asyncio.timeout(PATIENCE):
        assert value(await collect(client.session, resumable)) == [first.pid, second.pid]
        with pytest.raises(MCPError, match="not resumable"):
            await collect(client.session, fragile)


async def hear_and_kill(served: Served, *task_ids: str) -> None:
    listener = Listener()
    with suppress(ExceptionGroup):  # the connection breaks, which is the point
        async with connected(served.url, listener) as client:
            stream = listening(client, *task_ids)
            await listener.hears(len(task_ids), HOLDING)
            served.signal(signal.SIGKILL)
            await stream
    assert await served.ended() == -signal.SIGKILL
