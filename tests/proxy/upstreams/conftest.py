"""One upstream to a test: its server, its ear, and a connection that comes back soon."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coatcheck.client.wire import Json, Params
from coatcheck.proxy.config import ServerEntry, server_entry
from coatcheck.proxy.upstreams import upstream as upstream_module
from coatcheck.proxy.upstreams.backoff import Backoff
from coatcheck.proxy.upstreams.dialing import Dialect
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from tests.proxy.upstreams.hosts import PATIENCE, Host, hosted
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Puppet, text

CHILD = Path(__file__).parent / "programs" / "child.py"
SOON = Backoff(first=0.01, most=0.05)
SOON_FOR_PROCESSES = Backoff(first=0.01, most=0.05, tries=5)
LATER = Backoff(first=1000, most=1000)


class Ear:
    """Hears what an upstream asks and tells."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.told: list[tuple[str, Params]] = []
        self.lines: list[str] = []
        self._news = asyncio.Event()

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def asked(self, upstream: Upstream, method: str, params: Json, about: str | None) -> Json:
        raise AssertionError((method, params, about))

    def notified(self, upstream: Upstream, method: str, params: Params) -> None:
        self.told.append((method, params))
        self._news.set()

    def said(self, upstream: Upstream, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    def changed(self, upstream: Upstream, before: State, after: State) -> None:
        assert before == (self.states[-1] if self.states else State.DISCONNECTED)
        self.states.append(after)
        self._news.set()


@pytest.fixture
def backoff(monkeypatch: pytest.MonkeyPatch) -> Callable[[Backoff], None]:
    """Have lost connections be made again in other intervals than those people have."""

    def set_backoff(wanted: Backoff) -> None:
        monkeypatch.setattr(upstream_module, "FOR_HTTP", wanted)
        monkeypatch.setattr(upstream_module, "FOR_PROCESSES", wanted)

    set_backoff(SOON)
    return set_backoff


@pytest.fixture(autouse=True)
def soon(backoff: Callable[[Backoff], None]) -> None:
    """Nobody here waits for people's intervals."""


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture(params=[OLDER, NEWER])
def puppet(request: pytest.FixtureRequest) -> Puppet:
    """A server of either generation, with one tool that answers at once and one that does not."""
    made = Puppet((request.param,))

    async def echo(exchange: Exchange) -> Json:
        return text(exchange.arguments["word"])

    async def stuck(exchange: Exchange) -> Json:
        await asyncio.Event().wait()
        return text("never")

    made.tools.update(echo=echo, stuck=stuck)
    return made


@pytest.fixture
async def host(puppet: Puppet) -> AsyncGenerator[Host]:
    async with hosted(lambda: puppet) as opened:
        yield opened


Reach = Callable[[ServerEntry], Upstream]


@pytest.fixture
async def reach(ear: Ear) -> AsyncGenerator[Reach]:
    """Make an upstream, which in the end leaves nothing behind."""
    async with AsyncExitStack() as stack:

        def reach(entry: ServerEntry, *, declared: Json | None = None, is_older: bool = False) -> Upstream:
            upstream = Upstream(entry, declared or {}, Dialect(is_older, {}, entry.name, entry.protocol), ear)
            stack.push_async_callback(upstream.close)
            return upstream

        yield reach


@pytest.fixture
async def upstream(reach: Reach, host: Host) -> Upstream:
    return reach(host.entry())


class Children:
    """Processes started from one entry, as they say themselves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entry(self, **more: Any) -> ServerEntry:
        return server_entry("child", {"command": sys.executable, "args": ["-I", str(CHILD), str(self._folder)], **more})

    @property
    def pids(self) -> list[int]:
        file = self._folder / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def close(self) -> None:
        """Have those that are started from now on end at once."""
        (self._folder / "closed").touch()

    def open(self) -> None:
        (self._folder / "closed").unlink()


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path)


def leftovers(before: set[asyncio.Task[Any]]) -> list[str]:
    """Return what runs now and did not before. What the SDK's servers leave is none of ours."""
    theirs = ("_shutdown_watcher", "TestRunner.")
    found = (str(task.get_coro()) for task in asyncio.all_tasks() - before)
    return [name for name in found if not any(word in name for word in theirs)]


@asynccontextmanager
async def leaving_nothing() -> AsyncGenerator[None]:
    """Whatever is begun in it must have ended when it ends, but for the servers themselves."""
    before = asyncio.all_tasks()
    yield
    assert leftovers(before) == []
