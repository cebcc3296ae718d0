"""Another server takes over: found by sentinels, by a cluster's redirections, or by trying the next."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from coatcheck import BadStoreURL, open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.store import Store
from coatcheck.testing.builders import a_task
from tests.databases.redis import REDIS, Redis
from tests.processes import PATIENCE, ServerProcess, free_port
from tests.stores.redis.helpers import ask
from tests.stores.served.helpers import CLAIMED, keep, persistently, soon, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVICE = "tasks"
SENTINEL = """
port {port}
dir {folder}
sentinel monitor {service} 127.0.0.1 {primary} 1
sentinel down-after-milliseconds {service} 200
sentinel failover-timeout {service} 2000
"""


@contextmanager
def sentinel(primary: Redis) -> Generator[int]:
    """One that watches a server; gives its port."""
    folder, port = Path(tempfile.mkdtemp(prefix="coatcheck-sentinel-")), free_port()
    file = folder / "sentinel.conf"
    file.write_text(SENTINEL.format(port=port, folder=folder, service=SERVICE, primary=primary.process.port))
    process = ServerProcess([REDIS, file, "--sentinel"], port)
    process.start()
    try:
        yield port
    finally:
        process.kill()
        process.close()
        shutil.rmtree(folder)


@contextmanager
def servers(count: int, *options: str) -> Generator[list[Redis]]:
    with ExitStack() as stack:
        some: list[Redis] = []
        for _ in range(count):
            some.append(Redis(*options, port=low_port()))
            stack.callback(some[-1].close)
        yield some


def low_port() -> int:
    """Nodes of a cluster talk at a port that is higher by 10,000."""
    while (port := free_port()) > 55_000:
        pass
    return port


@contextmanager
def watched() -> Generator[tuple[Redis, Redis, int]]:
    """A server, its replica, and the port of a sentinel who knows both."""
    with servers(2) as (primary, replica):
        ask(replica.address, "REPLICAOF", "127.0.0.1", primary.process.port)
        with sentinel(primary) as port:
            yield primary, replica, port


async def knows_replica(port: int) -> None:
    await until(lambda: ask(f"redis://127.0.0.1:{port}", "SENTINEL", "REPLICAS", SERVICE))


@asynccontextmanager
async def waiting_for_news(store: Store, task_id: str) -> AsyncGenerator[asyncio.Task[object]]:
    wait = asyncio.create_task(store.get(task_id, newer_than=2, timeout=PATIENCE))
    yield wait
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)


async def test_sentinels_lead_to_the_server_that_took_over_and_waiters_hear_from_it() -> None:
    with watched() as (primary, replica, port):
        dead = free_port()
        url = f"redis+sentinel://127.0.0.1:{dead},127.0.0.1:{port}/{SERVICE}/0"
        await knows_replica(port)
        async with open_store(url) as here, open_store(url) as there:
            held = await keep(here, a_task("held"), CLAIMED)
            await until(lambda: ask(replica.address, "EXISTS", "{coatcheck}:held"))
            async with waiting_for_news(here, "held") as news:
                primary.process.kill()
                await persistently(there, a_task("late"))
                assert ask(replica.address, "ROLE")[0] == b"master"
                kept = await soon(here.get("held"))
                assert kept == held
                assert await there.delete(held)
                assert await soon(news) is None


async def test_what_is_only_a_replica_is_not_written_to() -> None:
    with servers(2) as (primary, replica), sentinel(primary) as port:
        url = f"redis+sentinel://127.0.0.1:{port}/{SERVICE}/0"
        async with open_store(url) as store:
            await store.insert(a_task("before"))
            # As after a failover that the sentinel has yet to notice.
            ask(replica.address, "REPLICAOF", "127.0.0.1", primary.process.port)
            await until(lambda: ask(replica.address, "EXISTS", "{coatcheck}:t:before"))
            ask(replica.address, "REPLICAOF", "NO", "ONE")
            ask(primary.address, "REPLICAOF", "127.0.0.1", replica.process.port)
            ask(f"redis://127.0.0.1:{port}", "SENTINEL", "REMOVE", SERVICE)
            watch = ("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", replica.process.port, 1)
            writing = asyncio.create_task(persistently(store, a_task("after")))
            ask(f"redis://127.0.0.1:{port}", *watch)
            await soon(writing)
            assert ask(replica.address, "EXISTS", "{coatcheck}:t:after")


async def test_sentinels_that_know_no_such_service_are_an_error_that_names_it() -> None:
    with servers(1) as (primary,), sentinel(primary) as port:
        with pytest.raises(StoreUnavailable, match="watch no service 'other'; name one they do"):
            async with open_store(f"redis+sentinel://127.0.0.1:{port}/other"):
                pass
        with pytest.raises(StoreUnavailable, match="check that sentinels are there") as refused:
            async with open_store(f"redis+sentinel://127.0.0.1:{primary.process.port}/{SERVICE}"):
                pass
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("end", ["", "/", "/tasks/zero", "/tasks/0/1", ":26379,:1/tasks", "/tasks?sentinel=x"])
async def test_a_url_of_sentinels_that_means_nothing_is_refused_without_its_password(end: str) -> None:
    with pytest.raises(BadStoreURL, match="; use ") as refused:
        async with open_store(f"redis+sentinel://ann:secret@localhost{end}"):
            pass
    assert "secret" not in str(refused.value)


async def test_of_several_servers_the_one_that_is_there_is_taken() -> None:
    with servers(1) as (server,):
        place = f"127.0.0.1:{server.process.port}"
        async with open_store(f"redis://127.0.0.1:{free_port()},{place}/0") as store:
            await store.insert(a_task())
        assert ask(server.address, "EXISTS", "{coatcheck}:t:a")


# A cluster


def slots_to(node: Redis, first: int, last: int) -> None:
    for start in range(first, last + 1, 1000):
        ask(node.address, "CLUSTER", "ADDSLOTS", *range(start, min(start + 1000, last + 1)))


async def meet(*nodes: Redis) -> None:
    for number, node in enumerate(nodes, start=1):
        ask(node.address, "CLUSTER", "SET-CONFIG-EPOCH", number)
    for node in nodes[1:]:
        ask(node.address, "CLUSTER", "MEET", "127.0.0.1", nodes[0].process.port)
    await until(lambda: all(b"cluster_state:ok" in ask(node.address, "CLUSTER", "INFO") for node in nodes))
    await until(lambda: all(acquainted(node) == len(nodes) for node in nodes))


def acquainted(node: Redis) -> int:
    """Count the nodes that this one would listen to, itself among them."""
    return sum(b"handshake" not in line for line in ask(node.address, "CLUSTER", "NODES").splitlines())


def written(server: Redis, role: str) -> int:
    """Count the bytes that a server has told its replicas, or heard as one."""
    return ask(server.address, "INFO", "replication")[f"{role}_repl_offset"]


async def test_a_cluster_leads_to_the_node_that_has_the_store_also_after_a_failover() -> None:
    with servers(3, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000") as (most, few, spare):
        # All keys of a store are in one slot; whichever that is, the second node does not have it.
        slots_to(most, 1, 16383)
        slots_to(few, 0, 0)
        await meet(most, few, spare)
        owner = ask(most.address, "CLUSTER", "MYID").decode()
        ask(spare.address, "CLUSTER", "REPLICATE", owner)
        url = f"redis://127.0.0.1:{few.process.port}/0"
        async with open_store(url) as here, open_store(url) as there:
            held = await keep(here, a_task("held"), CLAIMED)
            await until(lambda: ask(spare.address, "DBSIZE") and written(spare, "slave") == written(most, "master"))
            async with waiting_for_news(here, "held") as news:
                most.process.kill()
                ask(spare.address, "CLUSTER", "FAILOVER", "TAKEOVER")
                await persistently(there, a_task("late"))
                assert await there.delete(held)
                assert await soon(news) is None
            assert ask(spare.address, "ROLE")[0] == b"master"
