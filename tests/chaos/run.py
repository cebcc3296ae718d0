"""One run: processes, clients and faults on one store, and the judgement at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

import httpx2

from coatcheck import Engine, Status, Task, open_engine
from tests.chaos.calling import both_generations
from tests.chaos.clients import Client
from tests.chaos.faults import Fault, Injector, schedule
from tests.chaos.history import Handed, History
from tests.chaos.judge import Judge, all_rows, forget_everything, wake_the_dead
from tests.chaos.network import network_to
from tests.chaos.nodes import Node, Server, Where
from tests.chaos.orphans import Orphans
from tests.chaos.places import Place, place_of
from tests.chaos.terms import POLICY
from tests.processes import PATIENCE

SEED_VARIABLE = "COATCHECK_CHAOS_SEED"
_CLIENTS = 48
_SERVERS = {"server-a": 0, "server-b": 4}
_WORKERS = {"worker-1": 8, "worker-2": 8, "worker-3": 4}
"""And how many tasks each runs at once."""


@dataclass(frozen=True)
class Chaos:
    """Which run."""

    kind: str
    seed: int
    seconds: float
    folder: Path


@dataclass(frozen=True)
class Verdict:
    summary: str
    wrongs: Sequence[str]
    events: Sequence[str]


def a_seed() -> int:
    """Return a seed nobody has chosen, or the one that is given to be run again."""
    return int(os.environ.get(SEED_VARIABLE) or SystemRandom().randrange(2**32))


async def run(chaos: Chaos) -> Verdict:
    history, chance = History(), Random(chaos.seed)
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(place_of(chaos.kind, chaos.folder))
        async with open_engine(place.url, policy=POLICY) as engine, _nodes(place, chaos.folder, history) as nodes:
            orphans = Orphans(nodes, engine, history)
            injector = Injector(nodes, place, orphans, history)
            faults = schedule(chance, chaos.seconds, len(nodes), has_server=place.server is not None)
            http = await stack.enter_async_context(httpx2.AsyncClient())
            servers = [node for node in nodes if node.is_server]
            callers = both_generations(http)
            clients = [Client(f"c{n}", Random(chance.random()), callers, servers, history) for n in range(_CLIENTS)]
            await _rage(clients, injector, faults, history)
            await _settle(clients, servers, engine, history)
            await orphans.settled()
            judge = Judge(history, chaos.folder)
            judge.judge_clients()
            for node in nodes:
                await node.close()
            await judge.judge_rows(engine)
            await wake_the_dead(engine)
            await forget_everything(engine)
        for left in await place.left_over():
            history.wrong("left over:", left)
    summary = (
        f"{chaos.kind}, seed {chaos.seed}: {len(history.tasks)} tasks, {injector.count} faults,"
        f" {history.unanswered} requests without an answer,"
        f" {orphans.count} orphans, freed within {orphans.longest:.2f} leases, {len(history.wrongs)} wrongs"
    )
    return Verdict(summary, history.wrongs, history.events)


@asynccontextmanager
async def _nodes(place: Place, folder: Path, history: History) -> AsyncGenerator[list[Node]]:
    nodes: list[Node] = []
    async with AsyncExitStack() as stack:
        for name, slots in (_SERVERS | _WORKERS).items():
            url, network = place.url, None
            if place.server:
                network = await stack.enter_async_context(network_to(place.server.process.port))
                url = place.url_through(network.port)
            node = (Server if name in _SERVERS else Node)(name, slots, Where(url, network, folder), history)
            stack.push_async_callback(node.clean_up)
            nodes.append(node)
        for node in nodes:
            await node.ready()
        yield nodes


async def _rage(clients: Sequence[Client], injector: Injector, faults: Sequence[Fault], history: History) -> None:
    """Let all clients work while all faults happen."""
    living = [asyncio.create_task(client.live()) for client in clients]
    await injector.run(faults)
    history.log("no more faults")
    for client in clients:
        client.is_over.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*living)


async def _settle(clients: Sequence[Client], servers: Sequence[Node], engine: Engine, history: History) -> None:
    """See every task to its end, those nobody was told of as well, and look at each again on every server."""
    tasks = list(history.tasks.values())
    with suppress(TimeoutError):  # the judge will find what has not ended
        async with asyncio.timeout(PATIENCE):
            shares = [tasks[number :: len(clients)] for number in range(len(clients))]
            await asyncio.gather(*map(_see_to, clients, shares, [servers] * len(clients)))
            for row in await all_rows(engine):
                if row.id not in history.tasks:
                    await _end(engine, row)
    history.log("settled")


async def _see_to(client: Client, tasks: Sequence[Handed], servers: Sequence[Node]) -> None:
    for task in tasks:
        await client.settle(task)
        for server in servers:
            await client.look(task, server)
        await client.collect(task, servers[len(task.views) % len(servers)])


async def _end(engine: Engine, task: Task) -> None:
    """End a task whose client was never told of it: what it asks is asked of nobody."""
    task = await engine.settled(task, PATIENCE)
    if task.status is Status.INPUT_REQUIRED:
        await engine.cancel(task.id, task.owner)
