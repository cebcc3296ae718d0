"""The official conformance suite finds nothing worse through the proxy than without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.serving import EVERYTHING, proxying, running
from tests.conformance.suite import Outcome, run_core, worsened

pytestmark = pytest.mark.slow

KNOWN_DIFFERENCES: dict[str, dict[str, str]] = {"2026-07-28": {}, "2025-11-25": {}}
"""By version: checks that pass without the proxy and not through it, each with the reason why that is right."""


@pytest.mark.parametrize("version", KNOWN_DIFFERENCES)
def test_no_check_fails_through_the_proxy_that_passes_without_it(
    version: str, direct: Callable[[str, str], Outcome], tmp_path: Path
) -> None:
    with running(EVERYTHING, "hooked") as upstream, proxying(upstream, tmp_path) as url:
        through = run_core(url, version, tmp_path / "results")
    found, known = worsened(direct("hooked", version), through), KNOWN_DIFFERENCES[version]
    assert {check: what for check, what in found.items() if check not in known} == {}
    assert known.keys() <= found.keys(), "A difference that is none any more is to be struck off the list."
