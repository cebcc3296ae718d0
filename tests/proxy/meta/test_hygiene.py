"""Nothing is left behind: no timer, no task of the loop, whatever was going on when it ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import coatcheck
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream

pytestmark = pytest.mark.anyio

_SOURCE = str(Path(coatcheck.__file__).parent)


def _due(owner: str) -> list[str]:
    """Return the callbacks that the loop has yet to call, of what is ours; those that were cancelled are not."""
    scheduled: list[asyncio.TimerHandle] = vars(asyncio.get_running_loop())["_scheduled"]
    callbacks: list[Any] = [_callback(handle) for handle in scheduled if not handle.cancelled()]
    names = [getattr(callback, "__qualname__", "") for callback in callbacks]
    return [name for name in names if name.startswith(owner)]


def _callback(handle: asyncio.TimerHandle) -> Any:
    return handle._callback  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportPrivateUsage]


def _ours() -> list[str]:
    """Return what runs on the loop and is the proxy's; the servers behind it run here, too."""
    coroutines: list[Any] = [task.get_coro() for task in asyncio.all_tasks()]
    return [each.__qualname__ for each in coroutines if _SOURCE in each.cr_code.co_filename]


async def _asking(meta: Meta) -> str:
    await meta.task("ask", questions=["who?"])
    return await meta.question()


async def test_p_048_an_answer_clears_the_timer_of_its_question(meta: Meta) -> None:
    question = await _asking(meta)
    assert len(_due("PendingRequests")) == 1
    await meta.use("respond_to_elicitation", request_id=question, action="decline")
    assert _due("PendingRequests") == []


async def test_p_048_dismissing_a_request_clears_its_timer(meta: Meta) -> None:
    await meta.task("sample")
    request = await meta.question("sampling_request")
    assert len(_due("PendingRequests")) == 1
    await meta.use("cancel_sampling_request", request_id=request)
    assert _due("PendingRequests") == []


async def test_p_048_a_lost_connection_clears_the_timers_of_what_was_asked_on_it(meta: Meta, one: Upstream) -> None:
    await _asking(meta)
    await one.stop()
    await meta.until("server_disconnected")
    assert _due("PendingRequests") == []
    assert _due("Health") == []


async def test_p_048_a_quick_call_leaves_no_timer(meta: Meta) -> None:
    await meta.execute("echo", word="connected")
    before = len(_due(""))
    for number in range(20):
        await meta.execute("echo", word=str(number))
    assert len(_due("")) <= before + 5


async def test_p_048_a_deleted_timer_is_cleared(meta: Meta) -> None:
    timer = (await meta.use("set_timer", duration_ms=60_000)).said["timer"]["timer_id"]
    assert len(_due("Timers")) == 1
    await meta.use("delete_timer", timer_id=timer)
    assert _due("Timers") == []


async def test_p_048_a_proxy_that_closes_leaves_nothing_behind(one: Upstream) -> None:
    """It closes with a call, a task, questions, timers, a waiter and a lost server, all at once."""
    lost = Upstream("lost")
    await lost.start()
    async with proxying([one, lost], default_ttl=timedelta(minutes=5)) as place:
        meta = Meta(await place.http())
        await meta.task("work", name="task")
        await meta.task("work", server="lost", name="lost")
        await lost.moments.reached("lost")
        await lost.stop()
        await meta.until("server_disconnected")
        await _asking(meta)
        await meta.task("sample")
        await meta.question("sampling_request")
        await meta.use("set_timer", duration_ms=60_000, repeat=True)
        await meta.use("subscribe_resource", server="one", uri="memo://greeting")
        meta.begin("execute_tool", server="one", tool="work", args={"name": "call"})
        meta.begin("await_activity", timeout_ms=60_000)
        await one.moments.reached("call")
    await one.stop()
    assert _ours() == []
    for owner in ("PendingRequests", "Timers", "Health", "SupervisedLink", "Sessions", "Activity"):
        assert _due(owner) == []


async def test_p_048_a_call_that_nobody_waits_for_can_still_be_promoted_while_its_session_ends(one: Upstream) -> None:
    async with proxying([one]) as place:
        client = await place.http()
        meta = Meta(client)
        meta.begin("execute_tool", server="one", tool="work", args={"name": "left"})
        await one.moments.reached("left")
        await client.end()
    assert _due("PendingRequests") == []
