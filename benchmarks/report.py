"""The table on the terminal, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.line import BELOW_BOUND, Line
from benchmarks.machine import Machine

_WIDTH_OF_A_PIPE = 180


def show(console: Console, machine: Machine, lines: Sequence[Line], seconds: float) -> None:
    table = Table(title="coatcheck benchmarks", title_justify="left")
    for heading, justify in (
        ("", "left"),
        ("ours", "right"),
        ("against", "right"),
        ("", "left"),
        (escape("ratio [min..max]"), "right"),
        ("target", "right"),
        ("", "left"),
        ("CPU us each", "right"),
        ("fdatasync us", "right"),
    ):
        table.add_column(heading, justify=justify)  # pyright: ignore[reportArgumentType]
    for line in lines:
        table.add_row(*map(escape, _cells(line)), style=None if line.is_met is not False else "red")
    console.print(table)
    for line in lines:
        if line.note:
            console.print(f"  {line.name}: {line.note}", highlight=False, soft_wrap=True, markup=False)
    judged = [line for line in lines if line.target]
    console.print(
        f"{sum(line.is_met is True for line in judged)} of {len(judged)} targets met in {seconds:.0f} s on Python"
        f" {machine.python}, SQLite {machine.sqlite}, {machine.cores} cores,"
        f" fdatasync p50 {machine.fdatasync_p50_us:.0f} us, load {machine.load_before:.2f} before the run",
        highlight=False,
        soft_wrap=True,
    )


def save(path: Path, machine: Machine, lines: Sequence[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = msgspec.json.encode({"machine": machine, "lines": lines})
    path.write_bytes(msgspec.json.format(found, indent=2) + b"\n")


def console_for_table() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_OF_A_PIPE)


def _cells(line: Line) -> tuple[str, ...]:
    ratio = "" if line.ratio is None else f"{line.ratio:.2f} [{line.ratio_min:.2f}..{line.ratio_max:.2f}]"
    cpu = "" if line.cpu_us_ours is None else f"{line.cpu_us_ours:.0f} : {line.cpu_us_rival:.0f}"
    disk = "" if line.fdatasync_us is None else "{:.0f}..{:.0f}".format(*line.fdatasync_us)
    rival = "" if line.rival is None else _figure(line.rival, line.unit)
    return (
        line.name,
        _figure(line.ours, line.unit),
        rival,
        line.rival_name or "",
        ratio,
        _target(line),
        _met(line),
        cpu,
        disk,
    )


def _target(line: Line) -> str:
    if line.target is None:
        return "-"
    if line.target == BELOW_BOUND and line.rival is not None:
        return f"< {_figure(line.rival, line.unit)}"
    return f"{line.target.comparison} {line.target.limit:g}x"


def _met(line: Line) -> str:
    if line.is_disturbed:
        return "NO VERDICT: disturbed"
    if line.is_met is None:
        return ""
    if line.is_met == line.is_met_in_every_round:
        return "met" if line.is_met else "MISSED"
    return "met, not in every round"


def _figure(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 0.1 or not value else 3
    return f"{value:,.{digits}f} {unit}" if not unit.startswith(("/", "%")) else f"{value:,.{digits}f}{unit}"
