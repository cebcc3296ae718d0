"""One of two who pass a ball: each waits for the other's version of a task, and writes the next."""

import asyncio
import sys

from msgspec.structs import replace

from coatcheck import open_store
from tests.processes import PATIENCE


async def play(url: str, first: int, turns: int) -> None:
    """Answer every other version, from `first` on."""
    async with open_store(url) as store:
        for version in range(first, first + 2 * turns, 2):
            task = await store.get("ball", newer_than=version - 1, timeout=PATIENCE)
            assert task is not None
            assert task.version == version
            assert await store.replace(replace(task, version=version + 1))


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
