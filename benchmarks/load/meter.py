"""What some work took: latencies, processor time, memory (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

Metrics = dict[str, Any]
"""By name: figures, and a few things to look at that are none."""


def percentiles(seconds: Sequence[float], name: str) -> Metrics:
    """Return the nearest-rank percentiles of some latencies, in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    ranks = {"p50": int(0.50 * len(ordered)), "p99": int(0.99 * len(ordered)), "max": -1}
    return {f"{name}_{key}_ms": ordered[at] * 1e3 for key, at in ranks.items()}


def cpu_seconds(pid: int) -> float:
    """Return the processor time a process has used, of all its threads, even of those that have ended."""
    # What clock_getcpuclockid(3) returns. /proc counts in hundredths of a second, too coarse for short turns.
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def machine_seconds() -> float:
    """Return the time the machine's cores have been busy, all together."""
    with Path("/proc/stat").open() as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def machine_speed() -> float:
    """Return how fast this machine runs just now: million turns of an empty loop per second.

    A virtual machine's speed changes with its neighbours; with this number runs of different hours can be compared.
    """
    best = 1e9
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(500_000):
            pass
        best = min(best, time.perf_counter() - start)
    return 0.5 / best


class Meter:
    """Wall clock and processor time between `with` and its end.

    `pids[0]` is the server; any others (a database, workers) are its helpers.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self.seconds = self.cpu_seconds = 0.0
        self.metrics: Metrics = {}

    def __enter__(self) -> Self:
        self._machine = machine_seconds()
        self._cpu = [cpu_seconds(pid) for pid in self._pids]
        self._own, self._start = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        own = time.process_time() - self._own
        self.metrics = {"seconds": self.seconds, "client_cpu": own / self.seconds}
        if not self._pids:
            return
        used = [cpu_seconds(pid) - was for pid, was in zip(self._pids, self._cpu, strict=True)]
        self.cpu_seconds = sum(used)
        foreign = machine_seconds() - self._machine - own - self.cpu_seconds
        self.metrics |= {
            "server_cpu": used[0] / self.seconds,
            "helper_cpu": sum(used[1:]) / self.seconds,
            "foreign_cpu": max(0.0, foreign) / self.seconds,
            "server_rss_mb": rss_mb(self._pids[0]),
        }

    def per(self, operations: int) -> Metrics:
        """Return all metrics, with the processor time of server and helpers per operation."""
        found = {"operations": operations, **self.metrics}
        if self._pids and operations:
            found |= {"cpu_seconds": self.cpu_seconds, "cpu_ms_per_op": self.cpu_seconds / operations * 1e3}
        return found
