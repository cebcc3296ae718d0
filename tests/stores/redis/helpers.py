"""What the tests of the Redis store see of a Redis, without the store's help."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import redis


def prefix_of(url: str) -> str:
    return url.split("=")[1]


def key(url: str, name: str) -> str:
    """Return what a key of the store at this URL is called."""
    return f"{{{prefix_of(url)}}}:{name}"


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
