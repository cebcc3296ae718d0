"""The server of the races, the tools they are about, and how a race is run on one seed after the other."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any

from mcp.server.mcpserver import Context
from pydantic import BaseModel

from coatcheck import AlreadyFinished, Engine
from coatcheck.server import TaskPolicy, TaskServer
from tests.races.loop import rest, the_loop, turns
from tests.races.stores import Lots
from tests.races.wire import Client, Core, Kind, connected
from tests.server.wire import PATIENCE

SEED_VARIABLE = "COATCHECK_RACE_SEED"
PROMOTED = 3.0
"""Seconds after which the caller of `promoted` is not kept waiting any longer. Still quick."""
HELD = 45.0
"""Seconds after which the caller of any other tool gets a ticket."""
_FOR_EVER = 36_000.0

Race = Callable[[Random], Coroutine[Any, Any, None]]


class Name(BaseModel):
    name: str


class Stage:
    """What the tools of all races wait for, by the label of a call, and what became of them."""

    def __init__(self) -> None:
        self._events: defaultdict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)
        self.runs: Counter[str] = Counter()
        self.outcomes: defaultdict[str, list[str]] = defaultdict(list)
        self._labels = 0

    def label(self) -> str:
        self._labels += 1
        return f"call {self._labels}"

    def event(self, label: str, word: str) -> asyncio.Event:
        return self._events[label, word]

    def say(self, label: str, word: str) -> None:
        self._events[label, word].set()

    async def hears(self, label: str, word: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._events[label, word].wait()


def build(stage: Stage, store: str = "memory://", **options: Any) -> TaskServer:
    """Return a server whose tools do as the stage tells them. Nothing in it looks up by itself, to hide what it missed."""
    server = TaskServer("races", version="1", store=store, heartbeat=_FOR_EVER, grace=0.5, max_unfinished=None, **options)

    async def work(label: str) -> str:
        stage.runs[label] += 1
        stage.say(label, "begun")
        await stage.event(label, "go").wait()
        stage.outcomes[label].append("done")
        return f"{label} is done"

    async def ask(label: str, ctx: Context) -> str:
        stage.runs[label] += 1
        stage.say(label, "begun")
        asking = asyncio.create_task(ctx.elicit("Who?", Name))
        enough = asyncio.create_task(stage.event(label, "enough").wait())
        noting = asyncio.create_task(note(label, ctx))
        try:
            await asyncio.wait((asking, enough), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                stage.outcomes[label].append("gave up")
                return "gave up"
            answer = asking.result()
            stage.outcomes[label].append(answer.data.name if answer.action == "accept" else answer.action)
            return stage.outcomes[label][-1]
        finally:
            for part in (asking, enough, noting):
                part.cancel()
            await asyncio.gather(asking, enough, noting, return_exceptions=True)

    async def note(label: str, ctx: Context) -> None:
        await stage.event(label, "note").wait()
        await ctx.report_progress(1, 2, "Still asking")

    server.add_tool(work, task=True)
    server.add_tool(ask, task=True)
    server.add_tool(work, "promoted", task=TaskPolicy("optional", promote_after=PROMOTED))
    server.add_tool(work, "given_up", task=TaskPolicy("optional", cancel_on_disconnect=True))
    return server


@dataclass
class Served:
    """A server that runs, and its clients."""

    stage: Stage
    server: TaskServer
    core: Core
    lots: Lots
    stack: AsyncExitStack

    @property
    def engine(self) -> Engine:
        return self.server.tasks.running.engine

    async def client(self, kind: Kind) -> Client:
        return await self.stack.enter_async_context(connected(self.core, kind))


@asynccontextmanager
async def serving(lots: Lots, stage: Stage, server: TaskServer) -> AsyncGenerator[Served]:
    server.streamable_http_app()
    core = server.session_manager.app
    async with server.tasks.lifespan(server), AsyncExitStack() as stack:
        yield Served(stage, server, core, lots, stack)


def seeds(count: int) -> range:
    """Return seeds nobody has chosen, and print the first: set COATCHECK_RACE_SEED to run one again, and no other."""
    given = os.environ.get(SEED_VARIABLE)
    if given:
        return range(int(given), int(given) + 1)
    first = SystemRandom().randrange(2**32)
    print(f"{SEED_VARIABLE}={first} and the {count - 1} after it")
    return range(first, first + count)


async def run(lots: Lots, count: int, race: Race, share: int = 1) -> None:
    """Run a race with one seed after the other; whichever fails says how to run it again.

    Races that take long, or are many in one, are run on a `share` of the seeds.
    """
    loop = the_loop()
    for seed in seeds(max(count // share, 1)):
        await rest()
        lots.chance.seed(seed)
        loop.draw(lots.chance)
        try:
            await race(lots.chance)
            assert loop.faults == []
        except BaseException as error:
            error.add_note(f"to run it again: {SEED_VARIABLE}={seed}")
            raise
        finally:
            loop.draw(None)


async def at_once(chance: Random, *rivals: Awaitable[Any]) -> list[Any]:
    """Let all of them go, in any order, each after any number of turns; return their results, or what they raised."""

    async def start(rival: Awaitable[Any]) -> Any:
        await turns(chance)
        return await rival

    async with asyncio.timeout(PATIENCE):
        started = [(place, asyncio.create_task(start(rivals[place]))) for place in chance.sample(range(len(rivals)), len(rivals))]
        await asyncio.gather(*(task for _, task in started), return_exceptions=True)
    return [task.exception() or task.result() for _, task in sorted(started, key=lambda pair: pair[0])]


async def clear(engine: Engine) -> None:
    """Forget all tasks: thousands of races would make every look at them slower."""
    for task in await engine.list(limit=1000):
        with suppress(AlreadyFinished):
            task = await engine.cancel(task.id, task.owner)
        await engine.forget(task)
