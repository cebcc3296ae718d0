"""The app of these tests: tools that are run in processes of their own, and how such a process opens it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coatcheck import Engine, Policy, SyncContext, TaskContext, Tool, decode, open_engine, tool
from coatcheck.runners.detached.letter import Letter
from coatcheck.runners.detached.work import Launcher
from coatcheck.sync_context import Stopped

POLICY = Policy()
POLICIES: Mapping[str, Policy] = {
    "app": POLICY,
    "impatient": replace(POLICY, unwind=timedelta(seconds=0.1)),
    "hasty": replace(POLICY, lease=timedelta(seconds=1)),
    "narrow": replace(POLICY, max_result=10),
    "parking": replace(POLICY, park_after=timedelta(seconds=0.01)),
}
Opened = tuple[Engine, Iterable[Tool]]
HOME = "tests.detached.app:home"


def write(file: str, *words: object) -> None:
    """Say something to the test, a whole line at a time."""
    with Path(file).open("a") as lines:
        lines.write(" ".join(map(str, words)) + "\n")


async def where(ctx: TaskContext) -> dict[str, Any]:
    """Tell of the process this runs in."""
    print("said by the tool")
    print("complained by the tool", file=sys.stderr)
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "attempt": ctx.task.attempt,
        "identity": decode(ctx.task.call.identity) if ctx.task.call.identity else None,
        "files": {name: os.readlink(f"/proc/self/fd/{name}") for name in ("0", "1", "2")},
        "open": sorted(_open_files()),
        "folder": str(Path.cwd()),
        "environment": {name: value for name, value in os.environ.items() if name.startswith("COATCHECK_")},
    }


def _open_files() -> Iterable[str]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue


async def hold(ctx: TaskContext, log: str) -> None:
    """Wait to be stopped, and clean up then."""
    try:
        await ctx.note(f"holding {os.getpid()}")
        await asyncio.Event().wait()
    finally:
        write(log, "cleaned")


async def leave(ctx: TaskContext) -> None:
    """Wait to be stopped, and forget about the process that this one has started."""
    await ctx.note(f"holding {os.getpid()} {_start_sleeper()}")
    await asyncio.Event().wait()


def hold_in_thread(ctx: SyncContext, log: str) -> None:
    try:
        ctx.note(f"holding {os.getpid()}")
        while True:
            ctx.check()
            time.sleep(0.01)
    except Stopped:
        time.sleep(0.1)
        write(log, "cleaned")
        raise


def ignore(ctx: SyncContext) -> None:
    """Do not care for being stopped."""
    ctx.note(f"holding {os.getpid()}")
    while True:
        time.sleep(0.01)


async def ignore_on_loop(ctx: TaskContext) -> None:
    await ctx.note(f"holding {os.getpid()}")
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)


async def block(ctx: TaskContext, fifo: str | None = None) -> None:
    """Keep the event loop from doing anything at all, beside a process that this one has started.

    What is said in the store is read before the loop stands still; whoever reads from `fifo` knows that it does.
    """
    await ctx.note(f"holding {os.getpid()} {_start_sleeper()}")
    if fifo:
        Path(fifo).write_text("blocked")  # noqa: ASYNC240, nor may it wait for this
    time.sleep(600)  # noqa: ASYNC251, that is the point


async def freeze(ctx: TaskContext) -> None:
    """Stand still, deaf to all signals but one."""
    await ctx.note(f"holding {os.getpid()}")
    os.kill(os.getpid(), signal.SIGSTOP)


def _start_sleeper() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


async def walk(ctx: TaskContext, log: str, holds_at: int) -> list[int]:
    """Take three steps, and on its first run stay before one of them."""
    taken: list[int] = []
    for number in range(3):
        if number == holds_at and ctx.task.attempt == 2:
            await ctx.note(f"holding {os.getpid()}")
            await asyncio.Event().wait()
        taken.append(await ctx.step(f"{number}", _take, log, number))
    return taken


def _take(log: str, number: int) -> int:
    write(log, "step", number)
    return os.getpid()


async def ask(ctx: TaskContext) -> dict[str, Any]:
    answer = await ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
    return {"n": answer["content"]["n"], "pid": os.getpid()}


async def fail(ctx: TaskContext) -> None:
    raise ValueError("no luck")


FUNCTIONS = (where, hold, leave, hold_in_thread, ignore, ignore_on_loop, block, freeze, ask, fail)
INNER = (
    *(tool(function) for function in FUNCTIONS),
    tool(hold, name="hold briefly", timeout=0.3),
    tool(walk, resumable=True),
    tool(ask, name="ask patiently", resumable=True),
)


def tools(store: str, app: str = "app", **options: Any) -> list[Tool]:
    """Return the tools as a host has them."""
    launcher = Launcher(store=store, home=options.pop("home", HOME), app=app, **options)
    return [launcher.detach(inner) for inner in INNER]


@asynccontextmanager
async def home(letter: Letter) -> AsyncGenerator[Opened]:
    async with open_engine(letter.store, policy=POLICIES[letter.app]) as engine:
        yield engine, INNER
    print("the app was closed")


@asynccontextmanager
async def gated_home(letter: Letter) -> AsyncGenerator[Opened]:
    """Open the app once somebody writes into a pipe: the app of this home is its name."""
    await asyncio.to_thread(Path(letter.app).read_bytes)
    async with home(replace(letter, app="app")) as opened:
        yield opened


@asynccontextmanager
async def empty_home(letter: Letter) -> AsyncGenerator[Opened]:
    async with open_engine(letter.store) as engine:
        yield engine, ()


def home_that_dies(letter: Letter) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def home_that_never_opens(letter: Letter) -> Any:
    time.sleep(600)
