"""A server that runs, and how a race is run on it, on one seed after the other."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any

from coatcheck import AlreadyFinished, Engine, TaskNotFound
from coatcheck.server import TaskServer
from tests.races.loop import rest, the_loop, turns
from tests.races.stage import Stage
from tests.races.stores import Lots
from tests.races.wire import PATIENCE, Client, Core, Kind, connected

SEED_VARIABLE = "COATCHECK_RACE_SEED"
_ENOUGH = 100
"""Seeds, of which some should end one way and some another."""

Race = Callable[[Random], Coroutine[Any, Any, str | None]]
"""Runs once, and may say who has won."""


@dataclass
class Served:
    """A server that runs, and its clients."""

    stage: Stage
    server: TaskServer
    core: Core
    lots: Lots
    stack: AsyncExitStack
    beside: Served | None = None
    """Another one on the same store, that gets every second client."""
    clients: int = 0

    @property
    def engine(self) -> Engine:
        return self.server.tasks.running.engine

    async def client(self, kind: Kind) -> Client:
        self.clients += 1
        core = self.beside.core if self.beside and self.clients % 2 else self.core
        return await self.stack.enter_async_context(connected(core, kind))


@asynccontextmanager
async def serving(lots: Lots, stage: Stage, server: TaskServer) -> AsyncGenerator[Served]:
    core = core_of(server)
    async with server.tasks.lifespan(server), AsyncExitStack() as stack:
        yield Served(stage, server, core, lots, stack)


def core_of(server: TaskServer) -> Core:
    """Return what serves a connection. The public way to it is the HTTP application, made once."""
    with suppress(RuntimeError):
        return server.session_manager.app
    server.streamable_http_app()
    return server.session_manager.app


def seeds(count: int) -> range:
    """Return seeds nobody has chosen, and print them, to be set as COATCHECK_RACE_SEED: one, or `first+count`."""
    given = os.environ.get(SEED_VARIABLE)
    if given:
        first, _, many = given.partition("+")
        return range(int(first), int(first) + int(many or 1))
    chosen = SystemRandom().randrange(2**32)
    print(f"{SEED_VARIABLE}={chosen}+{count}")
    return range(chosen, chosen + count)


async def run(lots: Lots, count: int, race: Race, share: int = 1) -> None:
    """Run a race with one seed after the other; whichever fails says how to run it again.

    Races that take long, or are many in one, are run on a `share` of the seeds.
    """
    loop, chosen = the_loop(), seeds(max(count // share, 1))
    wins: Counter[str] = Counter()
    for seed in chosen:
        await rest()
        lots.chance.seed(seed)
        loop.draw(lots.chance)
        try:
            wins[await race(lots.chance) or ""] += 1
            assert loop.faults == []
        except BaseException as error:
            before = f"{chosen.start}+{seed - chosen.start + 1}"
            error.add_note(f"to run it again: {SEED_VARIABLE}={seed}, or {SEED_VARIABLE}={before} with all before it")
            raise
        finally:
            loop.draw(None)
    print(dict(wins))
    assert len(wins) > 1 or "" in wins or len(chosen) < _ENOUGH, f"it is no race if one always wins: {wins}"


async def at_once(chance: Random, *rivals: Awaitable[Any]) -> list[Any]:
    """Let all of them go, in any order, each after any number of turns; return their results, or what they raised."""

    async def start(rival: Awaitable[Any]) -> Any:
        await turns(chance)
        return await rival

    async with asyncio.timeout(PATIENCE):
        started = [
            (place, asyncio.create_task(start(rivals[place])))
            for place in chance.sample(range(len(rivals)), len(rivals))
        ]
        await asyncio.gather(*(task for _, task in started), return_exceptions=True)
    return [task.exception() or task.result() for _, task in sorted(started, key=lambda pair: pair[0])]


class Deserter:
    """A client that calls a tool and does not stay for the answer: it gives the call up, or hangs up altogether."""

    def __init__(self, served: Served, kind: Kind) -> None:
        self._served, self._kind = served, kind

    async def call(self, tool: str, label: str) -> None:
        self._stack = AsyncExitStack()
        self._client = await self._stack.enter_async_context(connected(self._served.core, self._kind))
        self._call = await self._client.begin_call(tool, label=label)

    async def desert(self, chance: Random) -> None:
        await turns(chance, 80)
        if chance.random() < 0.5:
            await self._client.give_up(self._call)
            await rest()
        await self._stack.aclose()
        await rest()


async def say(stage: Stage, label: str, word: str, chance: Random | None = None) -> None:
    """Say it, after any number of turns."""
    if chance:
        await turns(chance, 80)
    stage.say(label, word)


async def clear(engine: Engine) -> None:
    """Forget all tasks: thousands of races would make every look at them slower."""
    for task in await engine.list(limit=1000):
        with suppress(AlreadyFinished, TaskNotFound):
            task = await engine.cancel(task.id, task.owner)
        await engine.forget(task)


@asynccontextmanager
async def leaving_nothing() -> AsyncGenerator[None]:
    """What was begun inside has ended outside."""
    before = asyncio.all_tasks()
    yield
    await rest()
    # Starlette's streams have a task that watches them all, to the end of the loop.
    left = {task for task in asyncio.all_tasks() - before if "_shutdown_watcher" not in repr(task.get_coro())}
    assert left == set()
