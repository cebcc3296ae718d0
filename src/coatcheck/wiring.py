"""URL in, store or engine out; function in, tool out: the only module that names concrete classes."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from coatcheck.engine import Engine
from coatcheck.errors import BadStoreURL, InvalidArgument, KeyRefused, StoreUnavailable
from coatcheck.policy import Duration, Policy, Terms, duration
from coatcheck.runners.detached.target import find
from coatcheck.runners.detached.work import Launcher
from coatcheck.runners.loop import on_loop
from coatcheck.runners.process import in_process
from coatcheck.runners.thread import in_thread
from coatcheck.store import Store
from coatcheck.stores.codec import Codec
from coatcheck.stores.memory import MemoryStore
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.tool import Tool, Work
from coatcheck.worker import TaskWorker, Worker

KEY_VARIABLE = "COATCHECK_KEY"
APP_VARIABLE = "COATCHECK_APP"
"""Where a process of a detached task finds the server, if that cannot be told: `module:server`."""
_REDIS = ("redis", "coatcheck.stores.redis.store", "RedisStore")
_POSTGRES = ("postgres", "coatcheck.stores.postgres.store", "PostgresStore")
_DRIVEN = {
    **dict.fromkeys(("redis", "rediss", "redis+sentinel", "rediss+sentinel"), _REDIS),
    **dict.fromkeys(("postgresql", "postgres"), _POSTGRES),
}
"""By scheme: the extra that brings the driver, and where the store is."""


@asynccontextmanager
async def open_engine(url: str, *, policy: Policy = Policy(), key: str | None = None) -> AsyncGenerator[Engine]:
    """Open the store at `url` and an engine on it."""
    async with open_store(url, key=key) as store:
        yield Engine(store, policy)


@asynccontextmanager
async def open_store(url: str, *, key: str | None = None) -> AsyncGenerator[Store]:
    """Open a store: `memory://`, `sqlite:///tasks.db`, `sqlite:////var/lib/tasks.db`, `sqlite:///~/tasks.db`,
    `redis://host:6379/0?prefix=coatcheck`, `redis+sentinel://sentinel:26379/service/0`, both also as `rediss`;
    `postgresql://user@host/database?schema=coatcheck`.

    With `key` or COATCHECK_KEY set, all but what is indexed is encrypted at rest: arguments, answers, messages,
    journal, results and identity. Ids, owners, tool names, idempotency keys, states and times stay readable.

    Raises:
        BadStoreURL: The URL names no store.
        StoreUnavailable: The store cannot be opened or written.
        StoreUnusable: What is there is not ours, damaged, or newer than this library.
        KeyRefused: The key is missing, malformed or not the right one.
    """
    parts = _split(url)
    codec = _codec(os.environ.get(KEY_VARIABLE) if key is None else key)
    if parts.scheme == "memory":
        yield MemoryStore()
    elif parts.scheme == "sqlite":
        async with SQLiteStore(_path(url, parts.path), codec) as store:
            yield store
    else:
        async with _driven(parts.scheme)(url, codec) as store:
            yield store


def new_worker(
    engine: Engine, tools: Callable[[], Sequence[Tool]], *, slots: int, grace: Duration, docket: str | None = None
) -> AbstractAsyncContextManager[TaskWorker | None]:
    """Return who runs the tasks of a process, to be entered: nobody where `slots` is 0.

    With `docket`, the URL of a Redis, Docket carries them to whoever runs them, here or elsewhere.
    """
    if docket:
        courier = _loaded("coatcheck.couriers.worker", "docket", "Docket")
        return courier.DocketWorker(engine, tools(), docket, slots=slots, grace=grace)
    return Worker(engine, tools(), slots=slots, grace=grace) if slots else nullcontext()


def check_docket(url: str) -> None:
    """Refuse a URL at which Docket cannot be.

    Raises:
        InvalidArgument: It names no Redis, or limits that are none.
        StoreUnavailable: Docket is not installed.
    """
    _loaded("coatcheck.couriers.connection", "docket", "Docket").new_docket(url, 0)


def new_launcher(app: object, name: str, *, store: str, home: str) -> Launcher:
    """Return what starts processes for the tasks of an app, kept at `store`, which `home` opens there.

    Raises:
        InvalidArgument: The store cannot be shared, or another process could not find the app.
    """
    place = os.environ.get(APP_VARIABLE) or find(app)
    if place is None:
        raise InvalidArgument(
            f"Another process could not find {name!r}, as detached tasks need: give it a name at the top level of a "
            f"module, or say where one is with {APP_VARIABLE}=module:server."
        )
    return Launcher(store=store, home=home, app=place)


def without_password(url: str) -> str:
    """Return a store's URL, or its repr, as it may be shown: rather too little of one that is none than a password."""
    shown = re.sub(r"(?i)(password=)[^&]*?(?=&|'?\Z)", r"\1***", url)
    return re.sub(r"(?s)^((?:(?:[^:/?#@]*:)?//)?[^:@]*):(?!//).*@", r"\1:***@", shown)


def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    runs: Literal["auto", "process"] = "auto",
    resumable: bool = False,
    version: str = "",
    accepts: Sequence[str] = (),
    timeout: Duration | None = None,
    ttl: Duration | msgspec.UnsetType | None = msgspec.UNSET,
    poll_interval: Duration | None = None,
) -> Tool:
    """Make a tool of a function that takes a context, then the call's arguments by name.

    An async function runs on the event loop with a `TaskContext`, any other in a thread with a `SyncContext`;
    `runs="process"` gives it a process of its own. `resumable`: run again if its worker was lost, instead of failing.
    Workers run tasks of the `version`s of tools they know, and of older ones a tool `accepts`.
    """
    if not callable(function):
        raise InvalidArgument(f"A tool is made of a function, not of {type(function).__name__}.")
    name = name or getattr(function, "__name__", None)
    if not name:
        raise InvalidArgument("This function has no name; give the tool one with name=.")
    for wish, value in (("timeout", timeout), ("poll_interval", poll_interval), ("ttl", ttl)):
        if value is not None and value is not msgspec.UNSET:
            duration(wish, value)
    terms = Terms(ttl=ttl, poll_interval=poll_interval, resumable=resumable, version=version)
    work = _runner(function, runs)(function)
    return Tool(name=name, work=work, terms=terms, accepts=tuple(accepts), timeout=timeout)


def _runner(function: Callable[..., Any], runs: str) -> Callable[[Callable[..., Any]], Work]:
    is_async = inspect.iscoroutinefunction(function)
    match runs:
        case "auto":
            return on_loop if is_async else in_thread
        case "process" if is_async:
            raise InvalidArgument("An async function runs on the event loop; give the process a plain function.")
        case "process":
            return in_process
        case _:
            raise InvalidArgument(f"runs must be 'auto' or 'process', but it is {runs!r}.")


def new_key() -> str:
    """Return a fresh key for COATCHECK_KEY."""
    return _sealing().new_key()


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
    except (ValueError, AttributeError, TypeError):
        parts = None
    if parts is None or parts.scheme not in ("memory", "sqlite", *_DRIVEN):
        raise BadStoreURL(
            f"{without_password(repr(url))} names no store; use sqlite:///path/to/tasks.db, redis://, postgresql://"
            " or memory://."
        )
    if parts.scheme in _DRIVEN:
        return parts
    if parts.query or parts.fragment or parts.netloc or (parts.scheme == "memory" and parts.path):
        raise BadStoreURL(
            f"{without_password(repr(url))} has parts that mean nothing here; use memory:// or sqlite:///path/to/tasks.db."
        )
    return parts


def _driven(scheme: str) -> Any:
    """Return the class of a store that needs a driver, which is only imported when it is used."""
    extra, module, name = _DRIVEN[scheme]
    return getattr(_loaded(module, extra, f"A store at {scheme}://"), name)


def _loaded(module: str, extra: str, what: str) -> Any:
    """Import what needs packages that not everyone has."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("coatcheck"):
            raise
        raise StoreUnavailable(f"{what} needs one more package; run: pip install 'coatcheck[{extra}]'") from error


def _path(url: str, path: str) -> Path:
    name = unquote(path.removeprefix("/"))
    if not name or name.endswith("/") or "\0" in name or name == ":memory:":
        raise BadStoreURL(f"{url!r} names no file; use sqlite:///tasks.db, or memory:// to keep nothing.")
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError as error:
        raise BadStoreURL(f"{url!r} names a home folder that does not exist; write the path out.") from error


def _codec(keys: str | None) -> Codec:
    return Codec() if keys is None else Codec(_sealing().Keyring(keys))


def _sealing() -> Any:
    try:
        return importlib.import_module("coatcheck.stores.sealing")
    except ImportError as error:
        raise KeyRefused("Encryption needs one more package; run: pip install 'coatcheck[encryption]'") from error
