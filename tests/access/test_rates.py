"""How often tools may be called: counted before there is a task, for each caller or for all."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck import InvalidArgument
from coatcheck.errors import TooOften
from coatcheck.server import Access, Rate, TaskServer
from coatcheck.server.access.rates import Buckets, Rates
from tests.access.people import callers, guarded
from tests.requirements.marks import requirement
from tests.server.wire import OverHTTP, over_http

pytestmark = pytest.mark.anyio


class Name(BaseModel):
    name: str


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _passes(rates: Rates, calls: int, tool: str = "t", owner: str | None = "ann") -> int:
    """Return how many of so many calls pass."""
    passed = 0
    for _ in range(calls):
        try:
            rates.check(tool, owner)
        except TooOften:
            continue
        passed += 1
    return passed


def test_a_burst_passes_and_then_so_many_in_a_while(clock: Clock) -> None:
    rates = Rates(Rate(6, per=60, burst=3), clock)
    assert _passes(rates, 10) == 3
    clock.now += 10
    assert _passes(rates, 10) == 1
    clock.now += 3600
    assert _passes(rates, 10) == 3


def test_each_caller_has_a_bucket_of_its_own(clock: Clock) -> None:
    rates = Rates(Rate(2), clock)
    assert [_passes(rates, 5, owner=owner) for owner in ("ann", "bob", None)] == [2, 2, 2]


def test_a_rate_of_everyone_is_shared(clock: Clock) -> None:
    rates = Rates(Rate(3, of="everyone"), clock)
    assert [_passes(rates, 2, owner=owner) for owner in ("ann", "bob")] == [2, 1]


def test_tools_have_rates_of_their_own_beside_the_servers(clock: Clock) -> None:
    rates = Rates(Rate(4), clock)
    rates.set("slow", Rate(1))
    assert [_passes(rates, 3, tool) for tool in ("slow", "quick")] == [1, 3]


def test_a_call_that_one_rate_refuses_is_not_counted_by_another(clock: Clock) -> None:
    rates = Rates(Rate(3), clock)
    rates.set("slow", [Rate(1), Rate(100, of="everyone")])
    assert _passes(rates, 50, "slow") == 1
    assert _passes(rates, 50, "quick") == 2


def test_the_refusal_says_what_is_allowed_and_when_to_come_again(clock: Clock) -> None:
    rates = Rates(clock=clock)
    rates.set("slow", Rate(2, per=timedelta(minutes=1)))
    _passes(rates, 2, "slow")
    with pytest.raises(TooOften) as refused:
        rates.check("slow", "ann")
    assert str(refused.value) == "Tool 'slow' may be called 2 times a minute; try again in 30 s."
    assert refused.value.retry_after == 30


def test_whoever_waits_as_long_as_it_was_told_is_let_through(clock: Clock) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(200):
        rate = Rate(dice.uniform(0.1, 50), per=dice.uniform(0.1, 1000), burst=dice.choice([None, 1, 7]))
        rates = Rates(rate, clock)
        _passes(rates, dice.randrange(60))
        try:
            rates.check("t", "ann")
        except TooOften as refused:
            clock.now += refused.retry_after + 1e-6
            rates.check("t", "ann")


def test_many_callers_do_not_fill_the_memory(clock: Clock) -> None:
    buckets = Buckets(clock)
    for number in range(250_000):
        buckets.take({number: (1.0, 1.0)})
    assert len(buckets) == 100_000


@pytest.mark.parametrize(
    "wrong", [{"calls": 0}, {"calls": -1}, {"calls": float("nan")}, {"calls": 1, "per": 0}, {"calls": 1, "burst": 0}]
)
def test_a_rate_that_allows_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Rate(**wrong)


async def _refusal(caller: OverHTTP, tool: str) -> tuple[int, Any]:
    with pytest.raises(MCPError) as refused:
        await caller.call(tool)
    return refused.value.code, refused.value.error.data


@requirement("F-059")
async def test_the_rate_of_a_tool_counts_before_there_is_a_task() -> None:
    server = guarded()

    @server.tool(task=True, rate=Rate(2, per=3600))
    async def slow() -> str:
        return "done"

    async with callers(server) as (ann, bob, _):
        for _ in range(2):
            await ann.hand_in("slow")
        code, data = await _refusal(ann, "slow")
        assert code == -31429
        assert 0 < data["retryAfterMs"] <= 1_800_000
        assert len(await server.tasks.running.engine.list_all()) == 2
        await bob.hand_in("slow")


async def test_a_rate_counts_for_tools_that_are_never_tasks_and_callers_without_a_name() -> None:
    server = TaskServer("test", store="memory://", access=Access(rate=Rate(2, per=3600)))

    @server.tool(task=True)
    async def slow() -> str:
        return "done"

    @server.tool()
    async def quick() -> str:
        return "done"

    async with over_http(server) as anyone:
        await anyone.hand_in("slow")
        await anyone.call("quick")
        assert (await _refusal(anyone, "slow"))[0] == -31429
        assert (await _refusal(anyone, "quick"))[0] == -31429


async def test_each_round_of_a_call_counts() -> None:
    server = TaskServer("test", store="memory://", access=Access(rate=Rate(2, per=3600)))

    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else "nobody"

    async with over_http(server, capabilities={"elicitation": {"form": {}}}) as anyone:
        asked = await anyone.call("ask")
        ((key, _),) = asked["inputRequests"].items()
        answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
        again = {"name": "ask", "arguments": {}, "inputResponses": answers, "requestState": asked["requestState"]}
        assert (await anyone.request("tools/call", again))["content"][0]["text"] == "Ada"
        with pytest.raises(MCPError) as refused:
            await anyone.call("ask")
    assert refused.value.code == -31429
