"""A program with many handles, in a process of its own so that its memory can be measured. It reports in JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from typing import Any, cast

import psutil

from coatcheck.client import Client
from coatcheck.client.client import Mode

_AT_ONCE = 50
_GATE = {"name": "crowd"}


async def main(url: str, mode: str, push: str, count: int) -> dict[str, Any]:
    async with Client(url, mode=cast("Mode", mode), push=push == "push", ledger=False) as client:
        await asyncio.gather(*(client.call("add", {"a": 1, "b": 1}) for _ in range(_AT_ONCE)))
        before = _memory()
        handles = [handle for _ in range(0, count, _AT_ONCE) for handle in await _start(client)]
        waiting = [asyncio.create_task(handle.result()) for handle in handles]
        await client.call("until_seen", {"count": count})
        each = (_memory() - before) / count
        await client.call("open_gate", _GATE)
        results = await asyncio.gather(*waiting)
        polls = (await client.call("polls")).data
    left = len(asyncio.all_tasks()) - 1
    through = sum(result.data == "through crowd" for result in results)
    return {"results": through, "left": left, "bytes": each, "polls": polls}


async def _start(client: Client) -> list[Any]:
    return await asyncio.gather(*(client.start("gate", _GATE) for _ in range(_AT_ONCE)))


def _memory() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


if __name__ == "__main__":
    _, to, generation, way, number = sys.argv
    print(json.dumps(asyncio.run(main(to, generation, way, int(number)))))
