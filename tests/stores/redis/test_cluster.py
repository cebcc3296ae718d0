"""A cluster: its nodes lead to the one that has the store, also while that changes."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import advance
from coatcheck.testing.builders import NOW, a_task
from tests.stores.redis.helpers import ask
from tests.stores.redis.insider import RedisInsider
from tests.stores.redis.nodes import CLUSTER, Move, in_step, meet, servers, slots_to, waiting_for_news
from tests.stores.served.helpers import CLAIMED, LATER, RECORDED, keep, persistently, soon, stores, until, waiting

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_cluster_leads_to_the_node_that_has_the_store_also_after_a_failover() -> None:
    with servers(3, *CLUSTER) as (most, few, spare):
        # All keys of a store are in one slot; whichever that is, the second node does not have it.
        slots_to(most, 1, 16383)
        slots_to(few, 0, 0)
        await meet(most, few, spare)
        owner = ask(most.address, "CLUSTER", "MYID").decode()
        ask(spare.address, "CLUSTER", "REPLICATE", owner)
        url = f"redis://127.0.0.1:{few.process.port}/0"
        async with open_store(url) as here, open_store(url) as there:
            held = await keep(here, a_task("held"), CLAIMED)
            await until(lambda: in_step(most, spare))
            async with waiting_for_news(here, "held") as news:
                most.process.kill()
                ask(spare.address, "CLUSTER", "FAILOVER", "TAKEOVER")
                await persistently(there, a_task("late"))
                assert await there.delete(held)
                assert await soon(news) is None
            assert ask(spare.address, "ROLE")[0] == b"master"


async def test_of_those_who_wait_for_work_in_a_cluster_one_is_told_wherever_they_were_led_from() -> None:
    with servers(2, *CLUSTER) as (most, few):
        slots_to(most, 1, 16383)
        slots_to(few, 0, 0)
        await meet(most, few)
        there = RedisInsider(most.url("coatcheck"))
        async with stores(few.url("coatcheck"), 3) as (boss, *others), waiting(*others):
            await there.until_idle(2)
            assert len(ask(most.address, "PUBSUB", "CHANNELS")) == 2
            await boss.insert(a_task("a", tool="slow"))
            await there.expect_idle(1)


async def test_what_is_written_while_a_cluster_moves_a_store_is_written_as_a_whole() -> None:
    with servers(2, *CLUSTER) as (source, target):
        slots_to(source, 0, 16383)
        await meet(source, target)
        async with open_store(source.url("x")) as store:
            held = await keep(store, a_task("held"), CLAIMED)
            await keep(store, a_task("other"))
            noted = advance(held, RECORDED, NOW)
            move = Move(source, target, "x")
            move.begin()
            move.carry("{x}:all", "{x}:t:other")
            writing = asyncio.gather(store.replace(noted, RECORDED.entries), store.insert(a_task("new")))
            reading = asyncio.gather(store.get("other"), store.overdue(LATER, limit=9))
            await until(lambda: move.refusals() > 4)
            assert not writing.done()
            assert not ask(source.address, "KEYS", "*:j:held")
            move.end()
            assert await soon(writing) == [True, a_task("new")]
            assert [task and task.id for task in (await soon(reading))[1]] == ["held"]
            assert await store.get("held") == noted
            assert await store.journal("held") == list(RECORDED.entries)
        assert ask(target.address, "EXISTS", "{x}:t:new")
