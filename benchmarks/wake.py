"""How soon a process learns of a change that another one committed."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.children import ROOT, command, say
from benchmarks.line import Line, Settings, bounded, percentile
from benchmarks.rows import submit
from coatcheck.engine import Engine, utc_now
from coatcheck.lifecycle import Noted, advance
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.task import Task

_BOUND_MS = 10.0
_SHORTEST_GAP, _LONGEST_GAP = 0.005, 0.02


class Change(msgspec.Struct, frozen=True):
    """When a version was handed to the store, and when the store said that it is on disk; of the shared clock."""

    version: int
    called: int
    returned: int


def run(settings: Settings) -> list[Line]:
    changes, count = settings.scaled(500, 100), min(settings.rounds, 3)
    rounds = [asyncio.run(_round(settings.folder / f"wake{number}.db", changes)) for number in range(count)]
    from_call = [[call for call, _ in each] for each in rounds]
    from_return = [[since for _, since in each] for each in rounds]
    note = (
        f"{changes} changes a round, 5-20 ms apart; from the commit's return: p50"
        f" {_over(from_return, 50):.2f} ms; from the call: p50 {_over(from_call, 50):.2f},"
        f" p99 {_over(from_call, 99):.2f} ms"
    )
    p99 = [percentile(each, 99) for each in from_return]
    return [bounded("wake of another process, p99", "ms", p99, bound=_BOUND_MS, note=note)]


def _over(rounds: list[list[float]], percent: float) -> float:
    return median(percentile(each, percent) for each in rounds)


async def _round(path: Path, changes: int) -> list[tuple[float, float]]:
    """Return for every change the milliseconds until the waiter had it: from the call, and from its return."""
    async with SQLiteStore(path) as store:
        engine = Engine(store)
        task = await submit(engine, claimed_by="bench")
        writer = await asyncio.create_subprocess_exec(
            *command("benchmarks.wake", path, task.id, changes), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        seen = await _watch(engine, task, task.version + changes)
        printed, _ = await writer.communicate()
    latencies: list[tuple[float, float]] = []
    for change in msgspec.json.decode(printed, type=list[Change]):
        # A waiter that was late for one change sees it together with the next.
        at = next(at for version, at in seen if version >= change.version)
        latencies.append(((at - change.called) / 1e6, (at - change.returned) / 1e6))
    return latencies


async def _watch(engine: Engine, task: Task, last: int) -> list[tuple[int, int]]:
    seen: list[tuple[int, int]] = []
    while task.version < last:
        version = task.version
        task = await engine.wait(task, 30)
        seen.append((task.version, time.monotonic_ns()))
        if task.version == version:
            raise RuntimeError("The writer has fallen silent")
    return seen


async def _write(path: Path, task_id: str, changes: int) -> list[Change]:
    written: list[Change] = []
    async with SQLiteStore(path) as store:
        task = await store.get(task_id)
        assert task is not None
        await asyncio.sleep(0.3)
        for number in range(changes):
            await asyncio.sleep(random.uniform(_SHORTEST_GAP, _LONGEST_GAP))
            now = max(utc_now(), task.updated_at + timedelta(microseconds=1))
            task = advance(task, Noted(task.attempt, f"Change {number}"), now)
            called = time.monotonic_ns()
            await store.replace(task)
            written.append(Change(task.version, called, time.monotonic_ns()))
    return written


if __name__ == "__main__":
    say(asyncio.run(_write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
