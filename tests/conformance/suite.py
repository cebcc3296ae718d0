"""The official conformance suite: its scenarios run against a URL, its checks read from what it writes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.conformance.node import NODE, packages

TASKS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
SKIPPED_BY_THE_SUITE = {("tasks-status-notifications", "tasks-status-notifications")}
"""Scenarios and checks of them that the suite skips, whatever the server does: they wait to be rewritten."""

_SEVERITY = ("SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE")
_RUNNING = 240
_FOLDER = re.compile(r"server-(.+?)-\d{4}-\d\d-\d\dT[\w-]+")
_SCENARIO = re.compile(r"^ +- (\S+)", re.MULTILINE)


class Check(msgspec.Struct, rename="camel", frozen=True):
    """One thing the suite looked at."""

    id: str
    name: str
    status: str
    error_message: str | None = None

    @property
    def title(self) -> str:
        """What tells it from the others of its scenario: some share an id."""
        return f"{self.id} ({self.name})"


Outcome = Mapping[str, Sequence[Check]]
"""The checks of every scenario that was run."""


def listed() -> list[str]:
    """Return the names of the suite's scenarios for servers."""
    return _SCENARIO.findall(_suite("list", "--server").stdout)


def run_scenario(url: str, scenario: str, results: Path) -> Sequence[Check]:
    """Run a scenario at the version it is about; `results` is where the suite writes, and empty."""
    return _run(url, results, "--scenario", scenario)[scenario]


def run_core(url: str, version: str, results: Path) -> Outcome:
    """Run all scenarios of a version of the protocol, those of extensions left out."""
    return _run(url, results, "--suite", "all", "--spec-version", version)


def objections(scenario: str, checks: Sequence[Check]) -> list[str]:
    """Return what did not pass, but for what the suite itself skips."""
    return [
        f"{scenario}: {check.status} {check.title}: {check.error_message}"
        for check in checks
        if check.status not in ("SUCCESS", "INFO")
        and not (check.status == "SKIPPED" and (scenario, check.id) in SKIPPED_BY_THE_SUITE)
    ]


def worsened(before: Outcome, after: Outcome) -> dict[str, str]:
    """Return the checks that went better before, or were not made after, and what became of each."""
    was, became = _worst(before), _worst(after)
    return {
        name: f"{_told(was.get(name))} became {_told(became.get(name))}"
        for name in was | became
        if _severity(became.get(name), "FAILURE") > _severity(was.get(name), "SUCCESS")
    }


def _worst(outcome: Outcome) -> dict[str, Check]:
    """Return every check by its name; of those that share one in a scenario, the worst."""
    worst: dict[str, Check] = {}
    for scenario, checks in outcome.items():
        for check in checks:
            name = f"{scenario}: {check.title}"
            worst[name] = max(worst.get(name, check), check, key=_severity)
    return worst


def _severity(check: Check | None, missing: str = "SUCCESS") -> int:
    return _SEVERITY.index(check.status if check else missing)


def _told(check: Check | None) -> str:
    if check is None:
        return "not made"
    return f"{check.status} ({check.error_message})" if check.error_message else check.status


def _run(url: str, results: Path, *selection: str) -> Outcome:
    done = _suite("server", "--url", url, "--output-dir", str(results), *selection)
    outcome: dict[str, list[Check]] = {}
    for file in sorted(results.glob("*/checks.json")):
        found = _FOLDER.fullmatch(file.parent.name)
        assert found, file
        outcome[found[1]] = msgspec.json.decode(file.read_bytes(), type=list[Check])
    assert outcome, done.stdout + done.stderr
    return outcome


def _suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = packages() / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    # Its exit code says less than the checks it writes: with a failure it is 1, as with a crash.
    return subprocess.run([NODE, program, *arguments], capture_output=True, text=True, timeout=_RUNNING)
