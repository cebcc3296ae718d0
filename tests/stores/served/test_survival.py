"""A server is killed: what was acknowledged stays, and what is asked meanwhile is done, once."""

import asyncio
import random
import secrets
from collections.abc import Callable, Generator

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import advance
from coatcheck.store import EVERYONE, Query
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.postgres import Postgres
from tests.databases.redis import Redis
from tests.processes import PATIENCE
from tests.stores.served.helpers import CLAIMED, FOREVER, RECORDED, keep, soon
from tests.stores.served.insider import Insider
from tests.stores.served.load import Load

pytestmark = pytest.mark.anyio

Server = Redis | Postgres
SERVERS: dict[str, Callable[[], Server]] = {
    "redis": lambda: Redis("--appendfsync", "always"),
    "valkey": lambda: Redis("--appendfsync", "always", is_valkey=True),
    "postgres": Postgres,
}


@pytest.fixture(scope="module")
def own_server(kind_of_store: str) -> Generator[Server]:
    server = SERVERS[kind_of_store]()
    yield server
    server.close()


@pytest.fixture
def url(own_server: Server) -> str:
    return own_server.url(f"test_{secrets.token_hex(4)}")


@pytest.fixture(autouse=True)
def _patient(insider: Insider, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    insider.have_patience(monkeypatch, PATIENCE)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_or_done_twice_when_a_server_is_killed_under_load(
    own_server: Server, url: str, insider: Insider
) -> None:
    seed = random.randrange(1 << 32)
    load = Load()
    await load.outlive(url, own_server.process, random.Random(seed))
    async with open_store(url) as store:
        kept = {task.id: task for task in await store.list(Query(owner=EVERYONE, limit=1_000_000))}
        assert kept == load.acknowledged, f"seed {seed}"
        for task_id in kept:
            assert list(await store.journal(task_id)) == list(RECORDED.entries), f"seed {seed}"
    assert await insider.count_entries() == len(kept), f"seed {seed}"


async def test_what_is_asked_while_the_server_is_away_is_done_once_it_is_back(own_server: Server, url: str) -> None:
    async with open_store(url) as store:
        held = await keep(store, a_task(), CLAIMED)
        await store.insert(a_task("b", tool="other"))
        own_server.process.kill()
        asked = [
            asyncio.ensure_future(store.insert(a_task("new"))),
            asyncio.ensure_future(store.replace(advance(held, RECORDED, NOW), RECORDED.entries)),
            asyncio.ensure_future(store.delete(a_task("b", tool="other"))),
            asyncio.ensure_future(store.get("a", newer_than=2, timeout=FOREVER)),
            asyncio.ensure_future(store.waiting(("slow",), limit=1, timeout=FOREVER)),
        ]
        await asyncio.to_thread(own_server.process.start)
        await soon(asyncio.wait(asked))
        noted = advance(held, RECORDED, NOW)
        assert [each.result() for each in asked] == [a_task("new"), True, True, noted, [a_task("new")]]
        assert list(await store.journal("a")) == [an_entry()]
