"""A client that does as it is told: commands come in as lines of JSON, and what came of them goes out as such."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Verb = Callable[..., Awaitable[Any]]


def tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


async def serve(verbs: Mapping[str, Verb], refused: Callable[[Exception], Any]) -> None:
    """Carry out commands, each at once, until there are no more. `refused`: what a server's error says."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)

    async def carry_out(number: int, verb: str, told: Mapping[str, Any]) -> None:
        try:
            tell(id=number, done=await verbs[verb](**told))
        except Exception as error:
            tell(id=number, **({"error": said} if (said := refused(error)) else {"wrong": repr(error)}))

    tell(ready=True)
    at_work: set[asyncio.Task[None]] = set()
    async for line in commands:
        work = asyncio.create_task(carry_out(**json.loads(line)))
        at_work.add(work)
        work.add_done_callback(at_work.discard)
    for work in list(at_work):
        work.cancel()
    await asyncio.gather(*at_work, return_exceptions=True)


def chosen(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to a form: the first field filled in."""
    name, field = next(iter(schema["properties"].items()))
    one_of = field.get("enum") or [each["const"] for each in field.get("oneOf", ())]
    return {name: one_of[0] if one_of else "Ada"}
