"""Whether a connected server still answers: asked now and then, and only told."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.client.connection import ConnectionLost
from coatcheck.client.http import Trouble
from coatcheck.proxy.upstreams import health as health_module
from coatcheck.proxy.upstreams.health import DEGRADED_AFTER, INTERVAL_SECONDS, TIMEOUT_SECONDS, Health
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from tests.proxy.upstreams.conftest import leaving_nothing
from tests.proxy.upstreams.hosts import PATIENCE, Host
from tests.proxy.upstreams.puppet import Exchange, Json, Puppet, Refusal

pytestmark = pytest.mark.anyio


class Patient:
    """What is asked how it is."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.timeouts: list[float] = []
        self.was_asked = asyncio.Event()

    async def probe(self, timeout: float) -> None:
        self.timeouts.append(timeout)
        self.was_asked.set()
        if self.error:
            raise self.error


LOST = ConnectionLost(Trouble("It is gone"), is_final=False)


def test_it_is_asked_every_two_minutes_and_has_one_to_answer() -> None:
    assert (INTERVAL_SECONDS, TIMEOUT_SECONDS, DEGRADED_AFTER) == (120, 60, 3)


async def test_it_is_unknown_before_anyone_is_connected() -> None:
    assert Health(Patient().probe).describe() == {"status": "unknown", "consecutive_failures": 0}


@pytest.mark.parametrize("error", [LOST, TimeoutError()])
async def test_a_server_is_degraded_after_three_failures_in_a_row(error: Exception) -> None:
    patient = Patient()
    health = Health(patient.probe)
    health.start()
    patient.error = error
    seen: list[str] = []
    for _ in range(4):
        await health.check()
        seen.append(health.status)
    assert seen == ["healthy", "healthy", "degraded", "degraded"]
    assert health.describe() == {"status": "degraded", "consecutive_failures": 4}
    patient.error = None
    await health.check()
    assert health.describe() == {"status": "healthy", "consecutive_failures": 0}
    assert set(patient.timeouts) == {60}
    health.stop()
    assert health.status == "unknown"


async def test_a_new_connection_begins_healthy() -> None:
    patient = Patient()
    patient.error = LOST
    health = Health(patient.probe)
    health.start()
    for _ in range(3):
        await health.check()
    health.stop()
    health.start()
    assert health.describe() == {"status": "healthy", "consecutive_failures": 0}
    health.stop()


async def test_it_is_asked_again_and_again_until_it_is_stopped() -> None:
    async with leaving_nothing():
        patient = Patient()
        health = Health(patient.probe, interval=0.001)
        health.start()
        async with asyncio.timeout(PATIENCE):
            for _ in range(3):
                await patient.was_asked.wait()
                patient.was_asked.clear()
        health.stop()
        asked = len(patient.timeouts)
        await _turns()
        assert len(patient.timeouts) == asked


async def test_a_server_that_does_not_answer_is_only_told_of(
    upstream: Upstream, puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_module, "TIMEOUT_SECONDS", 0.05)

    async def silence(exchange: Exchange) -> Json:
        await asyncio.Event().wait()
        return {}

    await upstream.connect()
    await upstream.health.check()
    assert upstream.describe()["health"] == {"status": "healthy", "consecutive_failures": 0}
    puppet.replies["tools/list"] = silence
    for _ in range(3):
        await upstream.health.check()
    assert upstream.describe()["health"] == {"status": "degraded", "consecutive_failures": 3}
    assert upstream.state is State.CONNECTED


async def test_an_error_is_an_answer(upstream: Upstream, puppet: Puppet) -> None:
    async def refuse(exchange: Exchange) -> Json:
        raise Refusal({"code": -32603, "message": "Not today"})

    puppet.replies["tools/list"] = refuse
    await upstream.connect()
    await upstream.health.check()
    assert upstream.health.failures == 0


async def test_nothing_is_asked_while_there_is_no_connection(upstream: Upstream, host: Host) -> None:
    async with leaving_nothing():
        await upstream.connect()
        assert upstream.health.status == "healthy"
        await upstream.close()
        assert upstream.health.status == "unknown"
        await upstream.health.check()
        assert upstream.health.failures == 0
        await host.stop()


async def _turns() -> None:
    """Wait for longer than it takes to be asked again."""
    is_over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, is_over.set)
    await is_over.wait()
