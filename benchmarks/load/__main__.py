"""Runs one measurement as often as asked, prints the summary and appends the whole to a file."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.load import holding, measures, starting, stub
from benchmarks.load.meter import Meter, Metrics, machine_speed
from benchmarks.load.options import parse
from benchmarks.load.session import Address

MEASURES: dict[str, Callable[..., Awaitable[Metrics]]] = {
    "call": measures.call,
    "roundtrip": measures.roundtrip,
    "throughput": measures.throughput,
    "poll": measures.poll,
    "hold": holding.hold,
    "cancel": measures.cancel,
    "start": starting.start,
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    address = Address.of(options.url, options.header)
    if options.measure == "stub":
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(stub.serve(address))
        return
    if options.measure == "poll" and options.fill:
        filled = {"tool": options.fill_tool, "arguments": options.fill_arguments, "number": options.fill}
        asyncio.run(measures.fill(address, clients=options.clients, **filled))
    runs, left_out = repeat(options, address)
    table = summary(runs)
    print(f"{options.measure} {options.label or options.url}")
    print(f"  {len(runs)} runs, {left_out} disturbed runs left out")
    show(runs, table)
    if options.json:
        settings = {key: value for key, value in vars(options).items() if key != "json"}
        record = {"options": settings, "left_out": left_out, "summary": table, "runs": runs}
        with Path(options.json).open("a") as file:
            file.write(json.dumps(record) + "\n")


def repeat(options: argparse.Namespace, address: Address) -> tuple[list[Metrics], int]:
    """Measure until enough runs were undisturbed.

    Return the least disturbed runs, whatever they found, and how many others there were.
    """
    runs: list[Metrics] = []

    def disturbance(run: Metrics) -> float:
        return float(run.get("foreign_cpu", 0.0))

    for _ in range(max(options.repeat, options.attempts)):
        wait_for_quiet(options)
        state = {"speed": machine_speed(), "loadavg": os.getloadavg()[0]}
        runs.append({**asyncio.run(_measure(options, address)), **state})
        if sum(disturbance(run) <= options.quiet for run in runs) >= options.repeat:
            break
    kept = sorted(runs, key=disturbance)[: options.repeat]
    return kept, len(runs) - len(kept)


async def _measure(options: argparse.Namespace, address: Address) -> Metrics:
    measure = MEASURES[options.measure]
    given: dict[str, Any] = {"pids": options.pid, **vars(options)}
    return await measure(
        address, **{name: given[name] for name in inspect.signature(measure).parameters if name in given}
    )


def wait_for_quiet(options: argparse.Namespace) -> None:
    """Wait, within bounds, until other programs leave the machine alone."""
    deadline = time.perf_counter() + options.patience
    while time.perf_counter() < deadline:
        with Meter(options.pid or [os.getpid()]) as meter:
            time.sleep(1.0)
        if meter.metrics["foreign_cpu"] <= options.quiet:
            return


def summary(runs: Sequence[Metrics]) -> Metrics:
    """Return the median, the smallest and the largest value of every number."""
    table: Metrics = {}
    for name in runs[0]:
        values = [run[name] for run in runs if isinstance(run.get(name), int | float)]
        if values:
            found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
            table[name] = {key: round(value, 4) for key, value in found.items()}
    return table


def show(runs: Sequence[Metrics], table: Metrics) -> None:
    """Print the summary, and once per run what is not a number."""
    for name, value in table.items():
        print(f"  {name:18} {value['median']:>12}   ({value['min']} .. {value['max']})")
    for name in runs[0]:
        if name not in table:
            for run in runs:
                print(f"  {name:18} {json.dumps(run[name])}")


if __name__ == "__main__":
    main()
