"""A loop that draws lots, servers on a store that takes its time, and how many races there are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.databases.fixtures import new_url
from tests.races.loop import SeededLoop
from tests.races.served import Race, Served, run, serving
from tests.races.stage import Stage, build
from tests.races.stores import Lots


class Races(Protocol):
    """Runs a race on many seeds, or on a share of them."""

    def __call__(self, race: Race, share: int = 1) -> Awaitable[None]: ...


# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")


_SAFETY = {
    "sqlite": ("sqlite.store._SAFETY_SECONDS",),
    "redis": ("redis.store._SAFETY_SECONDS", "redis.store._WORK_SAFETY_SECONDS"),
    "postgres": ("postgres.watch._SAFETY_SECONDS",),
}
_COST = 10
"""How much more a race costs on a store that is not in memory."""
on_every_store = pytest.mark.parametrize(
    "store", ["memory", *(pytest.param(kind, marks=pytest.mark.slow) for kind in _SAFETY)]
)
on_every_shared_store = pytest.mark.parametrize(
    "store", [pytest.param(kind, marks=pytest.mark.slow) for kind in _SAFETY]
)


@pytest.fixture
def store() -> str:
    """The kind of store; tests that run on others as well give it as a parameter."""
    return "memory"


@pytest.fixture
def anyio_backend(store: str) -> tuple[str, dict[str, Any]]:
    """Those who wait for other threads or processes share their time."""
    return "asyncio", {"loop_factory": partial(SeededLoop, jumps=store == "memory")}


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COATCHECK_STORE", "COATCHECK_CONCURRENCY", "COATCHECK_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lots(monkeypatch: pytest.MonkeyPatch) -> Lots:
    """What decides all that chance decides; also in the server, which gets the store of the race."""
    lots = Lots()
    monkeypatch.setattr("coatcheck.server.runtime.open_engine", lots.open_engine)
    return lots


@pytest.fixture
def only_what_is_told(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise whoever was not woken would find out a little later."""
    for name in _SAFETY.get(store, ()):
        monkeypatch.setattr(f"coatcheck.stores.{name}", 3600.0)


@pytest.fixture
async def served(store: str, lots: Lots, tmp_path: Path, only_what_is_told: None) -> AsyncGenerator[Served]:
    """A server; on a store that can be shared two, as in two processes: only the second one does the work."""
    stage, url = Stage(), new_url(store, tmp_path)
    if store == "memory":
        async with serving(lots, stage, build(stage)) as served:
            yield served
        return
    async with (
        serving(lots, stage, build(stage, url)) as back,
        serving(lots, stage, build(stage, url, concurrency=0)) as front,
    ):
        front.beside = back
        yield front


@pytest.fixture(params=[30, pytest.param(500, marks=pytest.mark.slow)])
def races(request: pytest.FixtureRequest, store: str, lots: Lots) -> Races:
    return partial(run, lots, request.param // (1 if store == "memory" else _COST))
