"""Runs the benchmarks one after the other, prints the table and writes the JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from asyncio import run
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks import (
    access_timing,
    cancel,
    claim_herd,
    creates,
    done,
    idle,
    memory,
    proxy_calls,
    proxy_sessions,
    reads,
    reads_size,
    redis_rival,
    server_calls,
    server_hold,
    server_moments,
    server_tasks,
    server_waiters,
    size,
    store_rates,
    wake,
    workers_scale,
)
from benchmarks.children import ROOT
from benchmarks.line import Line, Settings
from benchmarks.machine import fdatasync_p50_us, this_machine
from benchmarks.report import console_for_table, save, show
from benchmarks.rows import check_row

# The largest file comes last: the disk is still busy with it when it is gone.
BENCHMARKS: dict[str, tuple[Callable[[Settings], list[Line]], str]] = {
    "creates": (creates.run, "durable creates/s with 32 callers, against aiosqlite with a transaction each"),
    "reads": (reads.run, "reads/s with 32 callers, against aiosqlite"),
    "done": (done.run, "submit to done of a no-op, against one durable commit to the same file"),
    "cancel": (cancel.run, "from the return of cancel until the tool is stopped (no target)"),
    "wake": (wake.run, "from a commit in one process to the waiter in another"),
    "memory": (memory.run, "resident memory per waiting client, and per waiting task"),
    "idle": (idle.run, "processor time of a worker with nothing to do"),
    "server-tasks": (server_tasks.run, "tasks over HTTP, against FastMCP's: finished, round trip, polls"),
    "server-calls": (server_calls.run, "plain tool calls over HTTP, against the SDK alone"),
    "server-hold": (server_hold.run, "10,000 sleeping tasks in one process: memory, polls, their end"),
    "server-moments": (server_moments.run, "time to cancel and to start, against FastMCP (no target)"),
    "server-waiters": (server_waiters.run, "1,000 clients of 2025-11-25 in tasks/result: woken, and idle"),
    "access-timing": (access_timing.run, "refusals of unknown, foreign and expired ids, against their noise"),
    "proxy-calls": (proxy_calls.run, "what a proxy adds to a fast call, against FastMCP's proxy"),
    "proxy-sessions": (proxy_sessions.run, "200 sessions x 5 upstreams in one proxy: memory, and idle (no target)"),
    "stores-redis": (store_rates.run_redis, "creates, reads and finishes/s on Redis, against plain redis-py"),
    "stores-postgres": (store_rates.run_postgres, "the same on PostgreSQL, against plain asyncpg"),
    "redis-rival": (redis_rival.run, "tasks over HTTP, kept in Redis, against FastMCP's in the same Redis"),
    "workers-scale": (workers_scale.run, "a server and 1, 2 and 4 worker processes, on Redis and PostgreSQL"),
    "claim-herd": (claim_herd.run, "a claim while 50 workers are idle, against one, on every store (no target)"),
    "size": (size.run, "a read among 1,000,000 rows, against one among 1,000"),
    "reads-size": (reads_size.run, "reads of every kind among 1,000,000 tasks, against 1,000, on every store"),
}

_DESCRIPTION = """\
Measure coatcheck against a naive baseline, or against a bound, and print a table.

In every round both sides do the same work with the same durability (WAL, synchronous=FULL), one right after the
other and in changing order. The ratio is the median of the rounds' ratios; its range tells how far to trust it.
On a shared machine look at the ratio and at the CPU time per operation rather than at figures per second.
Ratios of durable work also depend on the disk: the slower it is, the more group commit gains. The fdatasync times
just before and after each line are part of it; compare only runs where they are alike.
"""


def main() -> int:
    options = _options()
    chosen = {name: each for name, each in BENCHMARKS.items() if options.only in name}
    if not chosen:
        print(f"There is no benchmark {options.only!r}; there is: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    started, progress = time.perf_counter(), Console(stderr=True)
    lines: list[Line] = []
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="bench-") as folder:
        settings = Settings(folder=Path(folder), rounds=options.rounds, is_quick=options.quick)
        machine = this_machine(settings.folder)
        run(check_row(settings.folder))
        for name, (benchmark, what) in chosen.items():
            with progress.status(f"{name}: {what}"):
                before = fdatasync_p50_us(settings.folder)
                found = benchmark(settings)
                disk = before, fdatasync_p50_us(settings.folder)
                lines += [msgspec.structs.replace(line, fdatasync_us=disk) for line in found]
    show(console_for_table(), machine, lines, time.perf_counter() - started)
    save(options.json, machine, lines)
    print(f"Written to {options.json}")
    return 0


def _options() -> argparse.Namespace:
    width = max(map(len, BENCHMARKS))
    listing = "\n".join(f"  {name:{width}}  {what}" for name, (_, what) in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=_DESCRIPTION,
        epilog=f"benchmarks:\n{listing}\n\nA missed target is reported and is no error: the exit code is 0.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=_positive, help="rounds for each line (default 5; 3 with --quick)")
    parser.add_argument("--only", default="", metavar="NAME", help="only benchmarks whose name holds this text")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/bench.json"),
        metavar="PATH",
        help="where to write what was run (default %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5)
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
