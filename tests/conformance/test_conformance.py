"""The official conformance suite finds nothing wrong with tasks, and nothing worse with the rest for having them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.conformance.serving import EVERYTHING, EXAMPLE, serving
from tests.conformance.suite import TASKS, Outcome, listed, objections, run_core, run_scenario, worsened

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["1", "2"], ids=["one-process", "two-processes"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with serving(EXAMPLE, tmp_path_factory.mktemp("store"), "--workers", request.param) as url:
        yield url


@pytest.mark.parametrize("scenario", TASKS)
def test_every_check_of_a_scenario_about_tasks_passes(scenario: str, url: str, tmp_path: Path) -> None:
    checks = run_scenario(url, scenario, tmp_path)
    assert checks
    assert objections(scenario, checks) == []


def test_no_scenario_about_tasks_is_left_out() -> None:
    assert [scenario for scenario in listed() if scenario.startswith("tasks-")] == list(TASKS)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_no_check_of_the_core_goes_worse_for_having_tasks(version: str, direct: Callable[[str, str], Outcome]) -> None:
    bare = direct("bare", version)
    for server in ("hooked", "offering"):
        assert worsened(bare, direct(server, version)) == {}


def test_every_check_of_the_core_passes_behind_our_command(tmp_path: Path) -> None:
    with serving(f"{EVERYTHING}:hooked", tmp_path) as url:
        outcome = run_core(url, "2026-07-28", tmp_path / "results")
    assert len(outcome) == 40
    assert [line for scenario, checks in outcome.items() for line in objections(scenario, checks)] == []
