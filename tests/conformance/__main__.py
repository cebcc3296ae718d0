"""`python -m tests.conformance`: the official conformance suite against our servers, as a table.

With `--proxy`: against a server and against our proxy in front of it, side by side.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.conformance.serving import EVERYTHING, EXAMPLE, proxying, running, serving
from tests.conformance.suite import TASKS, Check, Outcome, objections, run_core, run_scenario, worsened

CORE = "2026-07-28"
BEFORE = "2025-11-25"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--proxy", action="store_true", help="compare a server with our proxy in front of it")
    parser.add_argument(
        "--server", choices=("bare", "hooked", "offering"), default="hooked", help="which one (%(default)s)"
    )
    options = parser.parse_args()
    return _compare(options.server) if options.proxy else _look()


def _look() -> int:
    with _folder() as folder, serving(EXAMPLE, folder) as url:
        tasks = {scenario: run_scenario(url, scenario, folder / scenario) for scenario in TASKS}
    with _folder() as folder, serving(f"{EVERYTHING}:hooked", folder) as url:
        core = run_core(url, CORE, folder / "core")
    found = _show("Tasks", tasks) + _show(f"The rest of {CORE}, with tasks installed", core)
    return 1 if found else 0


def _compare(server: str) -> int:
    """Print what the suite finds with and without the proxy; return 1 if anything goes worse with it."""
    with _folder() as folder, running(EVERYTHING, server) as upstream, proxying(upstream, folder) as url:
        found = [
            _show_both(
                f"The core of {version}, {server}",
                run_core(upstream, version, folder / f"direct-{version}"),
                run_core(url, version, folder / f"proxy-{version}"),
            )
            for version in (CORE, BEFORE)
        ]
    return 1 if any(found) else 0


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


def _show_both(title: str, direct: Outcome, through: Outcome) -> Mapping[str, str]:
    """Print a row per scenario, then whatever goes worse through the proxy; return that."""
    console = Console(soft_wrap=True)
    worse = worsened(direct, through)
    table = Table("scenario", "direct", "proxy", "", title=title, title_justify="left")
    for scenario in dict.fromkeys([*direct, *through]):
        is_worse = any(check.startswith(f"{scenario}: ") for check in worse)
        passed = (_passed(each.get(scenario, ())) for each in (direct, through))
        table.add_row(scenario, *passed, "!" if is_worse else "")
    table.add_section()
    table.add_row("together", *(_passed([*chain.from_iterable(each.values())]) for each in (direct, through)))
    console.print(table)
    for check, what in worse.items():
        console.print(f"{check}: {what}", markup=False, highlight=False)
    return worse


def _passed(checks: Sequence[Check]) -> str:
    return f"{sum(check.status == 'SUCCESS' for check in checks)} of {len(checks)}"


if __name__ == "__main__":
    sys.exit(main())
