"""Another server takes over: found by sentinels, or by trying the next."""

import asyncio
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from coatcheck import BadStoreURL, open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.store import Store
from coatcheck.stores.redis import connection, link
from coatcheck.stores.redis.address import Address
from coatcheck.testing.builders import a_task
from tests.databases.redis import REDIS, Redis
from tests.processes import ServerProcess, free_port
from tests.stores.redis.helpers import ask
from tests.stores.redis.nodes import in_step, servers, waiting_for_news
from tests.stores.served.helpers import CLAIMED, keep, persistently, soon, until
from tests.stores.served.proxy import Proxy

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
def watched() -> Generator[tuple[Redis, Redis, int]]:
    """A server, its replica, and the port of a sentinel who knows both."""
    with replicated() as (primary, replica), sentinel(primary) as port:
        yield primary, replica, port


async def knows_replica(port: int) -> None:
    await until(lambda: ask(f"redis://127.0.0.1:{port}", "SENTINEL", "REPLICAS", SERVICE))


@contextmanager
def replicated() -> Generator[tuple[Redis, Redis]]:
    """A server, and one that only follows it."""
    with servers(2) as (primary, replica):
        ask(replica.address, "REPLICAOF", "127.0.0.1", primary.process.port)
        yield primary, replica


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


async def test_of_several_servers_one_that_is_only_a_replica_is_not_stayed_with() -> None:
    with replicated() as (primary, replica):
        async with open_store(f"redis://127.0.0.1:{replica.process.port},127.0.0.1:{primary.process.port}/0") as store:
            assert await soon(store.insert(a_task())) == a_task()
        assert ask(primary.address, "EXISTS", "{coatcheck}:t:a")


async def take_over(first: Redis, second: Redis, store: Store) -> None:
    """Let a replica be the primary of what was its own, and the store find out."""
    ask(second.address, "REPLICAOF", "NO", "ONE")
    ask(first.address, "REPLICAOF", "127.0.0.1", second.process.port)
    await persistently(store, a_task("late"))


async def test_who_was_about_to_listen_where_nobody_answers_listens_where_commands_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 1.0)
    with replicated() as (first, second):
        async with Proxy(first.process.port) as proxy:
            url = f"redis://127.0.0.1:{proxy.port},127.0.0.1:{second.process.port}/0"
            async with open_store(url) as store:
                await keep(store, a_task("held"), CLAIMED)
                await until(lambda: in_step(first, second))
                proxy.mute_at(b"SUBSCRIBE")
                async with waiting_for_news(store, "held"):
                    await until(lambda: proxy.muted_at)
                    await take_over(first, second, store)
                    await until(lambda: ask(second.address, "PUBSUB", "CHANNELS"))


async def test_who_had_just_begun_to_listen_elsewhere_listens_where_commands_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_begun, goes_on = asyncio.Event(), asyncio.Event()

    async def connect(address: Address, greeting: Sequence[connection.Command]) -> object:
        connected = await connection.connect(address, greeting)
        if greeting[0][0] == "SUBSCRIBE":
            has_begun.set()
            await goes_on.wait()
        return connected

    monkeypatch.setattr(link, "connect", connect)
    with replicated() as (first, second):
        url = f"redis://127.0.0.1:{first.process.port},127.0.0.1:{second.process.port}/0"
        async with open_store(url) as store:
            await keep(store, a_task("held"), CLAIMED)
            await until(lambda: in_step(first, second))
            async with waiting_for_news(store, "held"):
                await soon(has_begun.wait())
                await take_over(first, second, store)
                goes_on.set()
                await until(lambda: ask(second.address, "PUBSUB", "CHANNELS"))
