"""Another process on the same file: what it does, and how a test speaks with it."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from coatcheck import open_store
from coatcheck.lifecycle import Claimed, advance
from coatcheck.store import Store
from coatcheck.testing.builders import NOW, a_task

ROOT = Path(__file__).parents[2]
PATIENCE = 20
"""Seconds for what takes a fraction of one; starting Python on a busy machine is the slowest part."""


class Child:
    """A process that has the store open, and does as it is told, one verb and task id at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, verb: str, task_id: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{verb} {task_id}\n".encode())
        assert await self.hears() == f"done {verb} {task_id}"

    async def hears(self) -> str:
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).decode().strip()

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def a_child(path: Path) -> AsyncGenerator[Child]:
    """Start a process that opens the store at `path`; when this is left, it closes the store and ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, str(path)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    child = Child(process)
    try:
        assert await child.hears() == "open"
        yield child
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.communicate(), PATIENCE)


async def obey(store: Store, verb: str, task_id: str) -> None:
    if verb == "insert":
        await store.insert(a_task(task_id))
        return
    task = await store.get(task_id)
    assert task is not None
    if verb == "claim":
        assert await store.replace(advance(task, Claimed("child", NOW + timedelta(seconds=30)), NOW))
    elif verb == "delete":
        assert await store.delete(task)


async def main(path: str) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        print("open", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await obey(store, *line.split())
            print("done", *line.split(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
