"""A connection that is looked after: its states, how it comes back, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from mcp.shared.exceptions import MCPError

from coatcheck.client.wire import Json
from coatcheck.dialects.words import STATE_UNKNOWN, UNREACHABLE
from coatcheck.errors import CannotConnect
from coatcheck.proxy.failures import Unreachable
from coatcheck.proxy.upstreams.backoff import Backoff
from coatcheck.proxy.upstreams.call import UpstreamCall
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from tests.proxy.upstreams.conftest import LATER, Ear, Reach, leaving_nothing
from tests.proxy.upstreams.hosts import PATIENCE, Host, turned_away
from tests.proxy.upstreams.puppet import OLDER, Puppet, text

pytestmark = pytest.mark.anyio

CONNECTING, CONNECTED, RECONNECTING = State.CONNECTING, State.CONNECTED, State.RECONNECTING


def call(upstream: Upstream, tool: str, **arguments: str) -> UpstreamCall:
    made = UpstreamCall(upstream, tool, arguments, _nobody)
    made.start()
    return made


async def ended(made: UpstreamCall) -> Json:
    async with asyncio.timeout(PATIENCE):
        return await made.result()


async def _nobody(method: str, params: Json) -> Json:
    raise AssertionError(method)


# States


async def test_nothing_is_connected_before_it_is_needed(upstream: Upstream, puppet: Puppet, ear: Ear) -> None:
    assert upstream.state is State.DISCONNECTED
    assert (puppet.sent, ear.states) == ([], [])


async def test_a_connection_is_made_once_for_all_who_ask_for_it(upstream: Upstream, puppet: Puppet, ear: Ear) -> None:
    connections = await asyncio.gather(*(upstream.connect() for _ in range(5)))
    assert len(set(connections)) == len(puppet.sessions) == 1
    assert ear.states == [CONNECTING, CONNECTED]
    assert upstream.describe()["state"] == "connected"


async def test_a_server_that_is_not_there_is_told_at_once_and_reached_when_it_comes(
    upstream: Upstream, host: Host, ear: Ear
) -> None:
    await host.stop()
    with pytest.raises(Unreachable, match="'up' cannot be reached") as told:
        await upstream.connect()
    assert told.value.when["state"] == "reconnecting"
    assert ear.states == [CONNECTING, RECONNECTING]
    async with turned_away(host) as came:
        await came(3)
        assert upstream.link.attempt > 2
        assert upstream.describe()["error"]
    await host.start()
    await ear.until(lambda: upstream.state is CONNECTED)
    assert ear.states == [CONNECTING, RECONNECTING, CONNECTED]
    assert (upstream.link.attempt, upstream.link.error) == (0, "")
    assert "error" not in upstream.describe()


async def test_what_is_said_of_a_lost_server_tells_when_it_is_tried_again(
    host: Host, backoff: Callable[[Backoff], None], reach: Reach
) -> None:
    backoff(LATER)
    await host.stop()
    patient = reach(host.entry())
    with pytest.raises(Unreachable, match="attempt 1 to reconnect is in") as told:
        await patient.connect()
    assert told.value.when["attempt"] == 1
    assert 900_000 - 1 <= told.value.when["nextRetryMs"] <= 1_100_000
    described = patient.describe()
    assert (described["state"], described["attempt"]) == ("reconnecting", 1)
    assert described["next_retry_ms"] <= 1_100_000


# Coming back


async def test_whoever_needs_a_connection_now_does_not_wait_for_the_next_try(
    host: Host, backoff: Callable[[Backoff], None], reach: Reach, ear: Ear
) -> None:
    backoff(LATER)
    async with leaving_nothing():
        upstream = reach(host.entry())
        await host.stop()
        with pytest.raises(Unreachable):
            await upstream.connect()
        await host.start()
        async with asyncio.timeout(PATIENCE):
            await upstream.connect()
        assert ear.states == [CONNECTING, RECONNECTING, CONNECTED]
        await upstream.close()
        await host.stop()


async def test_what_has_to_go_on_waits_until_the_connection_is_back(upstream: Upstream, host: Host) -> None:
    await upstream.connect()
    await upstream.tools()
    await host.stop()
    with pytest.raises(MCPError) as refused:  # what is new does not wait
        await ended(call(upstream, "echo", word="a"))
    assert refused.value.code == UNREACHABLE
    assert upstream.state is RECONNECTING
    waiting = asyncio.create_task(upstream.link.run(lambda connection: connection.request("tools/list", {})))
    async with turned_away(host) as came:
        await came(3)
        assert not waiting.done()
    await host.start()
    async with asyncio.timeout(PATIENCE):
        assert [tool["name"] for tool in (await waiting)["tools"]] == ["echo", "stuck"]


async def test_a_server_that_has_kept_its_session_is_found_again_in_it(
    upstream: Upstream, host: Host, puppet: Puppet, ear: Ear
) -> None:
    await upstream.connect()
    before = upstream.link.connection
    stuck = call(upstream, "stuck")
    await puppet.until(lambda: puppet.of("tools/call"))
    await host.stop()
    with pytest.raises(MCPError):
        await ended(stuck)
    await host.start()
    await ear.until(lambda: ear.states[-2:] == [RECONNECTING, CONNECTED])
    assert upstream.link.connection is before
    assert len(puppet.sessions) == 1
    assert await ended(call(upstream, "echo", word="again")) == text("again")


@pytest.mark.parametrize("puppet", [OLDER], indirect=True)
async def test_a_server_that_has_forgotten_its_session_is_asked_for_another(
    upstream: Upstream, host: Host, puppet: Puppet, ear: Ear
) -> None:
    await upstream.connect()
    puppet.forgotten.update(puppet.sessions)
    # What is certain not to have been carried out is carried out on the new connection.
    assert await ended(call(upstream, "echo", word="again")) == text("again")
    assert len(puppet.sessions) == 2
    assert ear.states == [CONNECTING, CONNECTED, RECONNECTING, CONNECTED]


async def test_a_connection_can_be_left_for_another(upstream: Upstream, puppet: Puppet, ear: Ear) -> None:
    first = await upstream.connect()
    second = await upstream.link.renew()
    assert first is not second
    assert len(puppet.sessions) == 2
    assert ear.states == [CONNECTING, CONNECTED, State.DISCONNECTED, CONNECTING, CONNECTED]
    if not second.is_modern:
        await puppet.until(lambda: puppet.left == puppet.sessions[:1])


async def test_renewing_does_not_wait_for_the_next_try(
    host: Host, backoff: Callable[[Backoff], None], reach: Reach, ear: Ear
) -> None:
    backoff(LATER)
    upstream = reach(host.entry())
    await host.stop()
    with pytest.raises(Unreachable):
        await upstream.connect()
    await host.start()
    async with asyncio.timeout(PATIENCE):
        await upstream.link.renew()
    assert upstream.state is CONNECTED


# What was under way


async def test_of_a_call_that_was_under_way_nobody_says_that_it_was_carried_out(
    upstream: Upstream, host: Host, puppet: Puppet
) -> None:
    stuck = call(upstream, "stuck")
    await puppet.until(lambda: puppet.of("tools/call"))
    await host.stop()
    with pytest.raises(MCPError) as lost:
        await ended(stuck)
    await host.start()
    await upstream.connect()
    assert lost.value.code == STATE_UNKNOWN
    assert lost.value.error.data == {"server": "up", "stateUnknown": True}
    assert "stuck" in lost.value.message
    assert len(puppet.of("tools/call")) == 1  # and it is not made again
    assert not upstream.calls


async def test_what_only_reads_is_asked_again(upstream: Upstream, host: Host, puppet: Puppet) -> None:
    is_held = asyncio.Event()

    async def read(exchange: object) -> Json:
        if not is_held.is_set():
            is_held.set()
            await asyncio.Event().wait()
        return {"contents": []}

    puppet.replies["resources/read"] = read
    reading = asyncio.create_task(upstream.request("resources/read", {"uri": "x://1"}))
    await is_held.wait()
    await host.stop()
    await host.start()
    async with asyncio.timeout(PATIENCE):
        assert (await reading)["contents"] == []
    assert len(puppet.of("resources/read")) == 2


# The end


@pytest.mark.parametrize("state", [State.DISCONNECTED, CONNECTING, CONNECTED, RECONNECTING])
async def test_nothing_is_left_of_a_closed_connection(
    state: State, host: Host, puppet: Puppet, reach: Reach, ear: Ear
) -> None:
    async with leaving_nothing():
        upstream = reach(host.entry())
        asking: asyncio.Task[object] | None = None
        if state is CONNECTING:
            puppet.is_silent = True
            asking = asyncio.create_task(upstream.connect())
            await puppet.until(lambda: puppet.sent)
        elif state is CONNECTED:
            call(upstream, "stuck")
            await puppet.until(lambda: puppet.of("tools/call"))
            await puppet.heard_by(1)
        elif state is RECONNECTING:
            await host.stop()
            with pytest.raises(Unreachable):
                await upstream.connect()
        assert upstream.state is state
        async with asyncio.timeout(PATIENCE):
            await upstream.close()
            if asking:
                with pytest.raises(CannotConnect):
                    await asking
        assert upstream.state is State.DISCONNECTED
        with pytest.raises(CannotConnect):
            await upstream.connect()
        await host.stop()
    assert ear.states[-1:] in ([], [State.DISCONNECTED])
