"""A host that does not live long: hands in one task, says its id, and leaves in a manner of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from coatcheck import Tool, Worker, open_engine
from coatcheck.runners.detached.spawn import Child
from coatcheck.runners.detached.work import Launcher
from coatcheck.task import Task
from tests.detached.app import HOME, INNER, POLICY


class DeadlyLauncher(Launcher):
    """Kills its own process as soon as it has started another."""

    async def start(self, task: Task) -> Child:
        await super().start(task)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


async def main(manner: str, url: str, home: str, app: str, tool: str, *arguments: str) -> None:
    given: dict[str, Any] = dict(pair.split("=", 1) for pair in arguments)
    launcher = (DeadlyLauncher if manner == "die" else Launcher)(store=url, home=home or HOME, app=app)
    tools: list[Tool] = [launcher.detach(inner) for inner in INNER]
    async with open_engine(url, policy=POLICY) as engine, Worker(engine, tools, grace=60) as worker:
        await worker.submit(tool, given, made=lambda task: print(task.id, flush=True))
        if manner == "die":
            await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
