"""What the processes of these tests run, and the tools they know."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from docket import Docket, Worker

from coatcheck import Policy, SyncContext, TaskContext, open_engine, tool
from coatcheck.couriers.worker import DocketWorker

POLICY = Policy(lease=timedelta(seconds=2), max_losses=100, quota=None, park_after=timedelta(seconds=0.1))
LEASE = 2.0
"""Docket's."""


def say(*words: object) -> None:
    print(*words, flush=True)


def note(log: str, *words: object) -> None:
    """Write down what was really done, in a file all processes share."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.close(descriptor)


def noted(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


# The tools


async def hold(ctx: TaskContext, log: str, holds: int = 0) -> int:
    """Tell which attempt it is. The first few of them hold for ever."""
    note(log, ctx.task.id, ctx.task.attempt)
    if ctx.task.attempt <= holds:
        say("holding", ctx.task.attempt)
        await asyncio.Event().wait()
    return ctx.task.attempt


async def stand_still(ctx: TaskContext, log: str) -> str:
    """Stop the whole process in the first attempt, and end as if nothing had been once it is continued."""
    note(log, ctx.task.id, ctx.task.attempt)
    if ctx.task.attempt > 1:
        return f"attempt {ctx.task.attempt}"
    say("stopping")
    os.kill(os.getpid(), signal.SIGSTOP)
    return "too late"


def block(ctx: SyncContext, log: str, seconds: float) -> str:
    """Block, as code does that knows nothing of event loops."""
    note(log, "blocks")
    say("blocking")
    time.sleep(seconds)
    return "done"


async def block_loop(ctx: TaskContext, log: str, seconds: float) -> str:
    """Block where that must not be done."""
    note(log, "blocks")
    say("blocking")
    time.sleep(seconds)  # noqa: ASYNC251
    return "done"


async def count(ctx: TaskContext, log: str, number: int) -> int:
    note(log, number)
    await asyncio.sleep(0.001)
    return number


TOOLS = (
    tool(hold, name="resumable", resumable=True),
    tool(hold, name="fragile"),
    tool(stand_still, resumable=True),
    tool(block),
    tool(block_loop),
    tool(count, resumable=True),
)


# The programs


async def work(store: str, url: str, slots: str = "8") -> None:
    """Be a worker until killed, or until SIGTERM asks for a graceful stop."""
    asked_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    async with (
        open_engine(store, policy=POLICY) as engine,
        DocketWorker(engine, TOOLS, url, slots=int(slots), grace=0.2, lease=LEASE) as worker,
    ):
        say("ready", worker.name)
        await asked_to_stop.wait()


async def work_for_docket_alone(address: str, name: str, log: str) -> None:
    """Be a worker of Docket's, with nothing of ours."""

    async def stand_still(number: int) -> str:
        note(log, "ran", os.getpid())
        say("running")
        if len(noted(Path(log))) > 1:
            return "the second"
        os.kill(os.getpid(), signal.SIGSTOP)
        return "the first"

    async def block(seconds: float) -> None:
        note(log, "ran", os.getpid())
        say("running")
        time.sleep(seconds)  # noqa: ASYNC251

    async with Docket(name=name, url=address) as docket:
        docket.register(stand_still)
        docket.register(block)
        async with Worker(docket, redelivery_timeout=timedelta(seconds=1)) as worker:
            say("ready")
            await worker.run_forever()


async def submit_and_die(store: str, log: str, count: str) -> None:
    """Submit tasks, and be gone before Docket could be told of them."""
    nowhere = "redis://127.0.0.1:1/0"
    async with open_engine(store, policy=POLICY) as engine, DocketWorker(engine, TOOLS, nowhere, slots=0) as node:
        for number in range(int(count)):
            task = await node.submit("count", {"log": log, "number": number})
            say("ack", task.id)
        os.kill(os.getpid(), signal.SIGKILL)


PROGRAMS: dict[str, Callable[..., Awaitable[None]]] = {
    program.__name__: program for program in (work, work_for_docket_alone, submit_and_die)
}


def run(name: str, *arguments: str) -> None:
    """Be the program of this name."""

    async def main() -> None:
        await PROGRAMS[name](*arguments)

    asyncio.run(main())
