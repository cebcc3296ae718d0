"""What the tests of the Redis store see of a Redis, without the store's help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import redis

from coatcheck.lifecycle import Claimed, Completed, Event, Recorded, advance
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""
LATER = NOW + timedelta(seconds=30)
CLAIMED = Claimed("w", LATER)
DONE = Completed(1, encode({}))


async def keep(store: Store, task: Task, *events: Event) -> Task:
    """Bring a task into the store and through events."""
    task = await store.insert(task)
    for event in events:
        task = advance(task, event, NOW)
        assert await store.replace(task, event.entries if isinstance(event, Recorded) else ())
    return task


def soon(what: Awaitable[Any]) -> Awaitable[Any]:
    return asyncio.wait_for(what, PATIENCE)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - it is another process that we look at
            await asyncio.sleep(0.002)


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def key(url: str, name: str) -> str:
    """Return what a key of the store at this URL is called."""
    return f"{{{url.split('=')[1]}}}:{name}"


def ask(address: str, *command: str | bytes | int) -> Any:
    """Send one command, as any other program could."""
    with redis.Redis.from_url(address.split("?")[0]) as client:  # pyright: ignore[reportUnknownMemberType]
        return cast("Any", client.execute_command(*command))  # pyright: ignore[reportUnknownMemberType]


@contextmanager
def commands_of_clients(address: str) -> Generator[list[str]]:
    """Collect the commands that clients send meanwhile; those of scripts are not theirs."""
    seen: list[str] = []
    with redis.Redis.from_url(address) as client, redis.Redis.from_url(address) as spy, spy.monitor() as monitor:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        said = cast("Any", monitor).listen()
        client.echo("begin")  # pyright: ignore[reportUnknownMemberType]
        while next(said)["command"] != "ECHO begin":
            pass
        yield seen
        client.echo("end")  # pyright: ignore[reportUnknownMemberType]
        while (line := next(said))["command"] != "ECHO end":
            if line["client_type"] != "lua":
                seen.append(line["command"])
