"""Several servers that know of each other, and clusters of them: set up, and changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from coatcheck.store import Store
from tests.databases.redis import Redis
from tests.processes import PATIENCE, free_port
from tests.stores.redis.helpers import ask
from tests.stores.served.helpers import until

CLUSTER = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")


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


@asynccontextmanager
async def waiting_for_news(store: Store, task_id: str) -> AsyncGenerator[asyncio.Task[object]]:
    wait = asyncio.create_task(store.get(task_id, newer_than=2, timeout=PATIENCE))
    yield wait
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)


def written(server: Redis, role: str) -> int:
    """Count the bytes that a server has told its replicas, or heard as one."""
    return ask(server.address, "INFO", "replication")[f"{role}_repl_offset"]


def in_step(primary: Redis, replica: Redis) -> bool:
    """Say whether a replica has heard all there is."""
    return bool(ask(replica.address, "DBSIZE")) and written(replica, "slave") == written(primary, "master")


# Clusters


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


class Move:
    """The slot of a store on its way from one node to another, key by key."""

    def __init__(self, source: Redis, target: Redis, prefix: str) -> None:
        self._source, self._target = source, target
        self._slot: int = ask(source.address, "CLUSTER", "KEYSLOT", f"{{{prefix}}}:")

    def begin(self) -> None:
        self._set(self._target, "IMPORTING", self._source)
        self._set(self._source, "MIGRATING", self._target)

    def carry(self, *keys: str | bytes) -> None:
        for key in keys:
            ask(self._source.address, "MIGRATE", "127.0.0.1", self._target.process.port, key, 0, 5000)

    def end(self) -> None:
        """Carry what is left."""
        while keys := ask(self._source.address, "CLUSTER", "GETKEYSINSLOT", self._slot, 100):
            self.carry(*keys)
        for node in (self._target, self._source):
            self._set(node, "NODE", self._target)

    def refusals(self) -> int:
        """Count the commands that were sent on, or told to wait."""
        said = ask(self._source.address, "INFO", "errorstats")
        return sum(said.get(f"errorstat_{code}", {}).get("count", 0) for code in ("ASK", "TRYAGAIN"))

    def _set(self, node: Redis, state: str, other: Redis) -> None:
        ask(node.address, "CLUSTER", "SETSLOT", self._slot, state, ask(other.address, "CLUSTER", "MYID"))
