"""The server under chaos: its tools write down what they really do, and its heart beats while its store answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from coatcheck import StoreError
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from coatcheck.testing.builders import a_task
from tests.chaos.terms import BEAT, FOLDER_VARIABLE, POLICY, beats_file

_GHOST = a_task("ghost")
_VALUE = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
_ONCE = TaskPolicy("required", poll_interval=0.1)
_AGAIN = TaskPolicy("required", poll_interval=0.1, resumable=True)


async def quick(label: str) -> str:
    """Be done at once."""
    _note(label, "ran")
    return label


async def once(label: str, seconds: float) -> str:
    """Do what must not be done twice."""
    _note(label, "ran")
    await asyncio.sleep(seconds)
    return label


async def stubborn(label: str, seconds: float) -> str:
    """Do the same, and return its result even if nobody wants it any more."""
    _note(label, "ran")
    working = asyncio.create_task(asyncio.sleep(seconds))
    while not working.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(working)
    return label


def blocking(label: str, seconds: float) -> str:
    """Do the same in a thread."""
    _note(label, "ran")
    time.sleep(seconds)
    return label


async def steps(label: str, seconds: float, task: TaskContext) -> list[str]:
    """Take three steps, each of them recorded, and go on where another process had to stop."""
    return [await task.step(f"{number}", _step, label, number, seconds / 3) for number in range(3)]


async def ask(label: str, seconds: float, task: TaskContext) -> list[str]:
    """Take a step, ask a person, and take another with the answer."""
    first = await task.step("0", _step, label, 0, seconds / 2)
    answer = await task.elicit("Which value?", _VALUE)
    return [first, answer["content"]["value"], await task.step("1", _step, label, 1, seconds / 2)]


async def _step(label: str, number: int, seconds: float) -> str:
    _note(label, f"step-{number}")
    await asyncio.sleep(seconds)
    return f"{label}/{number}"


def _folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def _note(label: str, word: str) -> None:
    line = f"{label} {word} {os.getpid()}\n"
    descriptor = os.open(_folder() / "log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@asynccontextmanager
async def _alive(_: MCPServer[Any]) -> AsyncGenerator[dict[str, Any]]:
    beating = asyncio.create_task(_beat())
    yield {}
    beating.cancel()


async def _beat() -> None:
    """Beat: wait a moment, and have the store do a write that changes nothing."""
    descriptor = os.open(beats_file(_folder(), os.getpid()), os.O_WRONLY | os.O_CREAT, 0o600)
    beats = 0
    while True:
        await asyncio.sleep(BEAT)
        with suppress(StoreError, RuntimeError):  # it cannot answer, or has not been opened yet
            await server.tasks.running.engine.forget(_GHOST)
            beats += 1
            os.pwrite(descriptor, b"%d" % beats, 0)


server = TaskServer(
    "chaos",
    version="1",
    policy=POLICY,
    grace=0.5,
    bind_sessions=False,
    lifespan=_alive,
)
for function, terms in (
    (quick, _ONCE),
    (once, _ONCE),
    (stubborn, _ONCE),
    (blocking, _ONCE),
    (steps, _AGAIN),
    (ask, _AGAIN),
):
    server.add_tool(function, task=terms)
