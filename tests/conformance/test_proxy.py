"""The official conformance suite finds nothing worse through the proxy than without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.serving import EVERYTHING, proxying, running
from tests.conformance.suite import Outcome, run_core, worsened

pytestmark = pytest.mark.slow

VERSIONS = ("2026-07-28", "2025-11-25")
_ELICITATION = "input-required-result-basic-elicitation: sep-2322-elicitation"
_SEVERAL = "input-required-result-multiple-input-requests: sep-2322-multiple-inputs"
_PROGRESS = "tools-call-with-progress: tools-call-with-progress (ToolsCallWithProgress)"
_AS_TASK = "the server makes a task of the call for the proxy, so its questions come one by one, under the task's names"
_UNSEEN = "the server makes a task of the call for the proxy, which is over before anyone looks how far it is"
KNOWN_DIFFERENCES: dict[str, dict[str, str]] = {
    "bare": {},
    "offering": {
        f"2026-07-28: {_ELICITATION}-incomplete (InputRequiredResultElicitationIncomplete)": _AS_TASK,
        f"2026-07-28: {_ELICITATION}-complete (InputRequiredResultElicitationComplete)": _AS_TASK,
        f"2026-07-28: {_SEVERAL}-incomplete (InputRequiredResultMultipleInputsIncomplete)": _AS_TASK,
        f"2026-07-28: {_SEVERAL}-complete (InputRequiredResultMultipleInputsComplete)": _AS_TASK,
        f"2026-07-28: {_PROGRESS}": _UNSEEN,
        f"2025-11-25: {_PROGRESS}": _UNSEEN,
    },
}
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
