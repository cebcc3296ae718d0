"""What is written of calls, and what comes of those whose clients hang up, repeat or cancel them."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from coatcheck.proxy.gateway import Gateway
from tests.proxy.transparent.conftest import TASKS, Bench, Connect, over_http, serving
from tests.proxy.transparent.test_sessions import add_gate, follower
from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, text
from tests.sdk.peer import Client
from tests.sdk.transports import OverHTTP, another

pytestmark = pytest.mark.anyio
KEY = "coatcheck/idempotencyKey"


def rows(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        (count,) = opened.execute("SELECT count(*) FROM task").fetchone()
    return count


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def gateway(bench: Bench, puppet: Puppet, file: Path) -> Gateway:
    await bench.serve("up", puppet)
    return bench.proxy(store=f"sqlite:///{file}")


@pytest.fixture
async def hasty(gateway: Gateway, bench: Bench, file: Path) -> Gateway:
    """One that makes tasks of calls almost at once."""
    return bench.proxy(store=f"sqlite:///{file}", promote_after=0.05)


async def test_a_quick_call_leaves_nothing_in_the_store(
    gateway: Gateway, version: str, connect: Connect, file: Path
) -> None:
    async with connect(gateway, version, capabilities=TASKS if version == NEWER else {}) as peer:
        for _ in range(3):
            assert (await peer.call("up__echo", word="a"))["content"][0]["text"] == "a"
        assert rows(file) == 0
    assert rows(file) == 0


async def test_a_slow_call_is_in_the_store(hasty: Gateway, puppet: Puppet, file: Path) -> None:
    may_end = add_gate(puppet)
    async with over_http(hasty, NEWER, capabilities=TASKS) as peer:
        task = await peer.call("up__gate")
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert rows(file) == 1
        may_end.set()


@pytest.mark.parametrize("puppet", [OLDER], indirect=True, ids=["server-2025"])
async def test_a_slow_call_whose_client_hung_up_is_found_in_the_list(hasty: Gateway, puppet: Puppet) -> None:
    may_end = add_gate(puppet)
    async with serving(hasty) as app, another(app, Client(OLDER)) as peer:
        assert isinstance(peer, OverHTTP)
        leaving = OverHTTP(app, Client(OLDER))
        leaving.session = peer.session
        leaving.begin("tools/call", {"name": "up__gate", "arguments": {}})
        await puppet.until(lambda: puppet.of("tools/call"))
        await leaving.close()  # the connection breaks, and nobody says why
        async with asyncio.timeout(PATIENCE):
            while not (found := (await peer.call("list_tasks"))["structuredContent"]["tasks"]):
                pass
        (task,) = found
        may_end.set()
        result = await peer.call("wait_task", task_id=task["taskId"])
        assert result["content"][0]["text"] == "through"
    assert len(puppet.of("tools/call")) == 1


async def test_a_repeated_call_runs_once(gateway: Gateway, puppet: Puppet, version: str, connect: Connect) -> None:
    runs: list[str] = []

    async def count(exchange: Exchange) -> Json:
        runs.append("run")
        return text(f"run {len(runs)}")

    puppet.tools["count"] = count
    said = {"name": "up__count", "arguments": {}, "_meta": {KEY: "the same"}}
    async with connect(gateway, version) as peer:
        answers = [await peer.result("tools/call", said) for _ in range(2)]
        answers += [(await each)["result"] for each in [peer.begin("tools/call", said) for _ in range(3)]]
        other = await peer.result("tools/call", {**said, "_meta": {KEY: "another"}})
    assert {answer["content"][0]["text"] for answer in answers} == {"run 1"}
    assert other["content"][0]["text"] == "run 2"


async def test_a_cancelled_task_is_cancelled_at_its_server(hasty: Gateway, puppet: Puppet) -> None:
    add_gate(puppet)
    async with serving(hasty) as app:
        async with another(app, Client(NEWER, capabilities=TASKS)) as peer:
            task_id = (await peer.call("up__gate"))["taskId"]
        async with follower(app, task_id) as peer:
            await peer.result("tasks/cancel", {"taskId": task_id})
            await _stopped(puppet)
            assert (await peer.result("tasks/get", {"taskId": task_id}))["status"] == "cancelled"


async def test_a_call_that_its_client_cancels_is_cancelled_at_its_server(
    bench: Bench, puppet: Puppet, file: Path
) -> None:
    add_gate(puppet)
    await bench.serve("up", puppet)
    async with serving(bench.proxy(store=f"sqlite:///{file}")) as app:
        async with another(app, Client(NEWER, capabilities=TASKS)) as peer:
            peer.begin("tools/call", {"name": "up__gate", "arguments": {}})
            await puppet.until(lambda: puppet.of("tools/call"))
        await _stopped(puppet)
        assert rows(file) == 0


async def _stopped(puppet: Puppet) -> None:
    """Wait until a server has been told that nobody wants a call any longer, as its generation has it."""
    if puppet.versions == (OLDER,):
        await puppet.until(lambda: puppet.of("notifications/cancelled"))
    else:
        await puppet.until(lambda: [sent for sent in puppet.gone if sent.method == "tools/call"])


LARGE = "x" * (1 << 20)


async def test_a_call_with_too_much_for_a_row_is_no_task_and_goes_on_as_a_call(
    hasty: Gateway, puppet: Puppet, file: Path
) -> None:
    may_end = add_gate(puppet)
    async with over_http(hasty, NEWER, capabilities=TASKS) as peer:
        call = peer.begin("tools/call", {"name": "up__gate", "arguments": {"text": LARGE}})
        await puppet.until(lambda: puppet.of("tools/call"))
        quick = await peer.call("up__gate")
        assert quick["resultType"] == "task", "by the time this one is, the other would be"
        assert rows(file) == 1
        may_end.set()
        async with asyncio.timeout(PATIENCE):
            answer = await call
    assert answer["result"]["content"] == text("through")["content"]


async def test_a_task_that_is_asked_for_with_too_much_is_refused(gateway: Gateway, file: Path) -> None:
    async with over_http(gateway, OLDER) as peer:
        wish = {"name": "up__echo", "arguments": {"word": LARGE}, "task": {}}
        refused = await peer.error("tools/call", wish)
        assert (refused["code"], refused["data"]["limit"]) == (-32602, 1 << 20)
        assert rows(file) == 0
