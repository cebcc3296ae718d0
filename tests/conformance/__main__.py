"""`python -m tests.conformance`: the official conformance suite against our servers, as a table."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.conformance.serving import EXAMPLE, serving
from tests.conformance.suite import TASKS, Outcome, objections, run_core, run_scenario

CORE = "2026-07-28"


def main() -> int:
    with _folder() as folder, serving(EXAMPLE, folder) as url:
        tasks = {scenario: run_scenario(url, scenario, folder / scenario) for scenario in TASKS}
    with _folder() as folder, serving("tests.conformance.everything_server:hooked", folder) as url:
        core = run_core(url, CORE, folder / "core")
    found = _show("Tasks", tasks) + _show(f"The rest of {CORE}, with tasks installed", core)
    return 1 if found else 0


@contextmanager
def _folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _show(title: str, outcome: Outcome) -> list[str]:
    """Print a row per scenario, then whatever did not pass; return that."""
    console = Console(soft_wrap=True)
    table = Table("scenario", "checks", "passed", "skipped", title=title, title_justify="left")
    for scenario, checks in outcome.items():
        passed, skipped = (sum(check.status == status for check in checks) for status in ("SUCCESS", "SKIPPED"))
        table.add_row(scenario, str(len(checks)), str(passed), str(skipped or ""))
    checks = [check.status for checks in outcome.values() for check in checks]
    table.add_section()
    table.add_row("together", str(len(checks)), str(checks.count("SUCCESS")), str(checks.count("SKIPPED") or ""))
    console.print(table)
    found = [line for scenario, checks in outcome.items() for line in objections(scenario, checks)]
    for line in found:
        console.print(line, markup=False, highlight=False)
    return found


if __name__ == "__main__":
    sys.exit(main())
