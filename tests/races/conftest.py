"""A loop that draws lots, a server on a store that takes its time, and how many races there are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import pytest

from tests.races.loop import SeededLoop
from tests.races.served import Race, Served, run, serving
from tests.races.stage import Stage, build
from tests.races.stores import Lots


class Races(Protocol):
    """Runs a race on many seeds, or on a share of them."""

    def __call__(self, race: Race, share: int = 1) -> Awaitable[None]: ...


# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": SeededLoop}


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
async def served(lots: Lots) -> AsyncGenerator[Served]:
    stage = Stage()
    async with serving(lots, stage, build(stage)) as served:
        yield served


@pytest.fixture(params=[30, pytest.param(500, marks=pytest.mark.slow)])
def races(request: pytest.FixtureRequest, lots: Lots) -> Races:
    return partial(run, lots, request.param)
