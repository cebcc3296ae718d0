"""What the processes of these tests run, and the tools they know."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from coatcheck import (
    AlreadyFinished,
    Engine,
    Policy,
    Status,
    StoreError,
    SyncContext,
    Task,
    TaskContext,
    Worker,
    open_engine,
    open_store,
    tool,
)
from coatcheck.errors import Refused
from coatcheck.lifecycle import Completed
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.task import Entry

POLICY = Policy(lease=timedelta(seconds=2), max_losses=100)
NEVER = "never:any:0"
KINDS = ("resumable", "fragile")


def say(*words: object) -> None:
    print(*words, flush=True)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


# The tools


async def walk(ctx: TaskContext, log: str, holds: int = 0, is_deadly: bool = False) -> list[dict[str, int]]:
    """Take three steps, each recorded. The first few attempts hold after the first one; a deadly walk dies there."""
    done: list[dict[str, int]] = []
    for number in range(3):
        done.append(await ctx.step(f"{number}", _take, ctx.task, log, number))
        await ctx.progress(number + 1, 3)
        if is_deadly:
            die()
        if ctx.task.attempt <= holds:
            say("holding")
            await asyncio.Event().wait()
    return done


async def ask(ctx: TaskContext, log: str) -> dict[str, Any]:
    """Take a step, ask a person, take another one with the answer."""
    before = await ctx.step("before", _take, ctx.task, log, 0)
    answer = await ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
    after = await ctx.step("after", _take, ctx.task, log, answer["content"]["n"])
    return {"before": before, "after": after}


def burn(ctx: SyncContext) -> None:
    """Keep busy without ever talking to its task."""
    say("burning", os.getpid())
    until = time.monotonic() + 120
    while time.monotonic() < until:
        time.sleep(0.01)


def hold(ctx: SyncContext, gate: str) -> str:
    """Go on once there is a line to read."""
    say("holding", os.getpid())
    _pass(gate)
    return "done"


class SlowToLoad:
    """A tool whose process needs a line to read before it can begin."""

    def __init__(self, gate: str) -> None:
        self._gate = gate

    def __setstate__(self, state: dict[str, Any]) -> None:
        say("loading", os.getpid())
        _pass(state["_gate"])

    def __call__(self, ctx: SyncContext) -> str:
        return "done"


def employ(ctx: SyncContext, *, words: str = "") -> None:
    """Start a process that sleeps, and wait for it."""
    with subprocess.Popen(["sh", "-c", f"{words} echo; exec sleep 600"], stdout=subprocess.PIPE) as started:
        assert started.stdout
        started.stdout.readline()
        say("started", started.pid)


def ignore(ctx: SyncContext) -> None:
    """Do not listen to those who want it to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("started", os.getpid())
    time.sleep(600)


def _pass(gate: str) -> None:
    with open(gate) as opened:
        opened.readline()


async def _take(task: Task, log: str, number: int) -> dict[str, int]:
    line = f"{task.id} {number} {task.attempt} {os.getpid()}\n"
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)
    await asyncio.sleep(0.002)
    return {"number": number, "attempt": task.attempt, "pid": os.getpid()}


def steps_taken(log: Path, task: Task) -> Counter[int]:
    """Say how often each step of the task was really run, by any process."""
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(int(number) for task_id, number, _, _ in map(str.split, lines) if task_id == task.id)


TOOLS = (
    tool(walk, name="resumable", resumable=True),
    tool(walk, name="fragile"),
    tool(ask, name="ask-resumable", resumable=True),
    tool(ask, name="ask-fragile"),
)


# The trap


class TrappedStore:
    """Kills its own process at the nth write of a kind: before it, during it, or once it is durable."""

    def __init__(self, store: Store, trap: str) -> None:
        self._store = store
        self.get, self.delete, self.list, self.journal = store.get, store.delete, store.list, store.journal
        self.waiting, self.overdue = store.waiting, store.overdue
        self._when, self._kind, left = trap.split(":")
        self._left = int(left)
        self._under_way = 0
        self.is_sprung = False
        self.is_quiet = asyncio.Event()
        self.is_quiet.set()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        with self._writing("insert"):
            return await self._store.insert(task, quota=quota)

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        with self._writing(_kind_of(task, entries)):
            return await self._store.replace(task, entries)

    @contextmanager
    def _writing(self, kind: str) -> Generator[None]:
        self._left -= self._kind in (kind, "any")
        when = self._when if self._left == 0 and self._kind in (kind, "any") else None
        if when == "before":
            die()
        if when == "during":
            self.is_sprung = True
            threading.Thread(target=_die_soon, daemon=True).start()
        self._under_way += 1
        self.is_quiet.clear()
        yield
        self._under_way -= 1
        if self._under_way == 0:
            self.is_quiet.set()
        if when == "after":
            die()


@asynccontextmanager
async def open_trapped(url: str, trap: str) -> AsyncGenerator[TrappedStore]:
    async with open_store(url) as store:
        trapped = TrappedStore(store, trap)
        yield trapped
        if trapped.is_sprung:  # the write was quicker than death
            await asyncio.Event().wait()


def _kind_of(task: Task, entries: Sequence[Entry]) -> str:
    if entries:
        return "record"
    if task.status.is_terminal:
        return "outcome"
    if task.status is Status.INPUT_REQUIRED:
        return "question"
    return "claim" if task.version == 2 else "other"


def _die_soon() -> None:
    time.sleep(random.uniform(0, 0.002))  # a commit takes about that long
    die()


# The programs


async def work(url: str, trap: str = NEVER, slots: str = "64") -> None:
    """Be a worker until killed, or until SIGTERM asks for a graceful stop."""
    asked_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    async with (
        open_trapped(url, trap) as store,
        Worker(Engine(store, POLICY), TOOLS, slots=int(slots), grace=0.2),
    ):
        await asked_to_stop.wait()


async def work_in_process(url: str, name: str = "burn", gate: str = "") -> None:
    """Be a worker whose one task runs in a process of its own, until asked to stop."""
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    functions: dict[str, Callable[..., Any]] = {
        "burn": burn,
        "hold": partial(hold, gate=gate),
        "load": SlowToLoad(gate),
        "employ": employ,
        "employ-stubborn": partial(employ, words="trap '' TERM;"),
        "ignore": ignore,
    }
    tools = [tool(functions[name], name=name, runs="process")]
    async with open_engine(url, policy=POLICY) as engine, Worker(engine, tools, grace=60) as worker:
        await worker.submit(name)
        await asked_to_stop.wait()


async def stall(url: str, kind: str, manner: str) -> None:
    """Be a worker that stops in the middle of a task, and once continued ends it in a `manner` of its own."""
    async with open_trapped(url, NEVER) as store:

        async def walk_and_stall(ctx: TaskContext, log: str, holds: int = 0) -> Any:
            if ctx.task.attempt > 1:
                return await walk(ctx, log, holds)
            await ctx.step("0", _take, ctx.task, log, 0)
            # A process that stands still within a transaction keeps the file locked, for whatever comes after.
            await store.is_quiet.wait()
            say("stopping")
            os.kill(os.getpid(), signal.SIGSTOP)
            try:
                if manner == "records":
                    await ctx.step("late", _take, ctx.task, log, 1)
                if manner == "waits":
                    await asyncio.Event().wait()
            except (asyncio.CancelledError, Refused) as error:
                say("ended", type(error).__name__)
                raise
            say("ended", "by itself")
            return "too late"

        async def ping(ctx: TaskContext) -> int:
            return os.getpid()

        tools = [tool(walk_and_stall, name=kind, resumable=kind == "resumable"), tool(ping)]
        async with Worker(Engine(store, POLICY), tools):
            await asyncio.Event().wait()


async def submit(url: str, log: str, count: str, trap: str = NEVER) -> None:
    """Submit so many tasks, eight at a time, and print the id of each once it is acknowledged."""
    numbers = iter(range(int(count)))
    async with open_trapped(url, trap) as store:
        engine = Engine(store, POLICY)

        async def submit_some() -> None:
            for number in numbers:
                known = TOOLS[number % 2]
                task = await engine.submit(known.name, {"log": log}, terms=known.terms, idempotency_key=str(number))
                say("ack", task.id)

        await asyncio.gather(*(submit_some() for _ in range(8)))


async def submit_and_die(url: str, log: str, kind: str, how: str) -> None:
    """Submit one task, waiting or held by this very process, and be gone the moment that returned."""
    async with open_engine(url, policy=POLICY) as engine, Worker(engine, TOOLS) as worker:
        if how == "waiting":
            await worker.stop()
        task = await worker.submit(kind, {"log": log})
        say("ack", task.id)
        die()


async def finish(url: str, verb: str) -> None:
    """Cancel or complete each task whose id comes in, as soon as it comes, and tell who was first."""
    async with open_engine(url, policy=POLICY) as engine:
        say("ready")
        while task_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                if verb == "cancel":
                    await engine.cancel(task_id)
                else:
                    task = await engine.get(task_id)
                    await engine.report(task, Completed(task.attempt, encode("done"), keep=POLICY.retention))
                say("won")
            except AlreadyFinished:
                say("lost")


async def open_new(url: str, count: str, first_at: str, apart: str) -> None:
    """Open new stores, each at the very moment at which others open it, so many seconds apart."""
    for number in range(int(count)):
        moment = float(first_at) + number * float(apart)
        await asyncio.sleep(max(0.0, moment - time.time() - 0.002))
        while time.time() < moment:
            pass
        try:
            async with open_store(f"{url}_{number}"):
                pass
        except StoreError as error:
            say("refused", error)
    say("opened")


async def open_and_die(url: str, after: str) -> None:
    """Be killed while opening a new store."""
    threading.Timer(float(after), die).start()
    async with open_store(url):
        await asyncio.Event().wait()


PROGRAMS: dict[str, Callable[..., Awaitable[None]]] = {
    program.__name__: program
    for program in (work, work_in_process, stall, submit, submit_and_die, finish, open_new, open_and_die)
}


def run(name: str, *arguments: str) -> None:
    """Be the program of this name."""

    async def main() -> None:
        await PROGRAMS[name](*arguments)

    asyncio.run(main())
