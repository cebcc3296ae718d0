"""The databases of a test run: each started when it is first asked for, one for each process that runs tests."""

from __future__ import annotations

import atexit
from functools import cache
from itertools import count
from os import getpid

from tests.databases.postgres import Postgres
from tests.databases.redis import Redis

_numbers = count()


@cache
def the_redis(*, is_valkey: bool = False) -> Redis:
    server = Redis(is_valkey=is_valkey)
    atexit.register(server.close)
    return server


@cache
def the_postgres() -> Postgres:
    server = Postgres()
    atexit.register(server.close)
    return server


def new_url(kind: str, folder: object) -> str:
    """Return where an empty store of this kind is, which nobody else uses."""
    name = f"test_{getpid()}_{next(_numbers)}"
    match kind:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{folder}/tasks.db"
        case "redis":
            return the_redis().url(name)
        case "valkey":
            return the_redis(is_valkey=True).url(name)
        case "postgres":
            return the_postgres().url(name)
        case _:
            raise ValueError(f"There is no store of kind {kind}")
