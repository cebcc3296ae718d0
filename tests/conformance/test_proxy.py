"""The official conformance suite finds nothing worse through the proxy than without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.serving import EVERYTHING, proxying, running
from tests.conformance.suite import Outcome, run_core, worsened

pytestmark = pytest.mark.slow

VERSIONS = ("2026-07-28", "2025-11-25")
KNOWN_DIFFERENCES: dict[str, dict[str, str]] = {"bare": {}, "offering": {}}
"""By server: checks that pass without the proxy and not through it, each with the reason why that is right."""


@pytest.mark.parametrize("server", KNOWN_DIFFERENCES)
def test_no_check_fails_through_the_proxy_that_passes_without_it(
    server: str, direct: Callable[[str, str], Outcome], tmp_path: Path
) -> None:
    found: dict[str, str] = {}
    with running(EVERYTHING, server) as upstream, proxying(upstream, tmp_path) as url:
        for version in VERSIONS:
            through = run_core(url, version, tmp_path / version)
            worse = worsened(direct(server, version), through)
            found |= {f"{version}: {check}": what for check, what in worse.items()}
    known = KNOWN_DIFFERENCES[server]
    assert {check: what for check, what in found.items() if check not in known} == {}
    assert known.keys() <= found.keys(), "What is no difference any more is to be struck off the list."
