"""Watch a task outlive its worker.

Separate processes share one SQLite file: a submitter, two workers, and this program, which looks on and kills one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from coatcheck import Engine, Policy, Status, Task, TaskContext, Worker, decode, open_engine, tool

CITIES = {"Accra": 31, "Bergen": 9, "Cusco": 14, "Delhi": 38, "Edmonton": -4, "Fez": 22, "Goa": 30, "Hanoi": 27}
POLICY = Policy(note_interval=timedelta(seconds=0.1))


class Row(TypedDict):
    city: str
    celsius: int
    pid: int
    attempt: int


async def report(ctx: TaskContext, log: str) -> list[Row]:
    rows: list[Row] = []
    for number, city in enumerate(CITIES, start=1):
        rows.append(await ctx.step(city, measure, city, ctx.task.attempt, log))
        await ctx.progress(number, len(CITIES), city)
    return rows


async def measure(city: str, attempt: int, log: str) -> Row:
    await asyncio.sleep(0.4)  # stands for something slow that should not be done twice
    write_down(city, log)
    return {"city": city, "celsius": CITIES[city], "pid": os.getpid(), "attempt": attempt}


def write_down(city: str, log: str) -> None:
    """Leave a trace outside of coatcheck, so that a repeated step would show."""
    with open(log, "a") as file:
        print(city, file=file)


REPORT = tool(report, resumable=True)


async def submit(url: str, log: str) -> None:
    async with open_engine(url) as engine:
        task = await engine.submit(REPORT.name, {"log": log}, terms=REPORT.terms)
        print(task.id)


async def work(url: str) -> None:
    async with open_engine(url, policy=POLICY) as engine, Worker(engine, [REPORT]):
        await asyncio.Event().wait()


async def demo(folder: Path) -> None:
    url, log = f"sqlite:///{folder}/tasks.db", folder / "measured.txt"
    print(f"\nA report over {len(CITIES)} cities; each is a step that is recorded once it is done.\n")
    submitter = await start("submit", url, str(log))
    task_id = (await submitter.communicate())[0].decode().strip()
    print(f"  process {submitter.pid} handed in the task and is gone: {task_id}")
    workers = [await start("work", url)]
    print(f"  process {workers[0].pid} works on it\n")
    try:
        async with open_engine(url) as engine:
            task = await show(engine, await engine.get(task_id), until=is_half_done)
            workers[0].kill()
            workers.append(await start("work", url))
            print(f"\n  process {workers[0].pid} was killed with SIGKILL")
            print(f"  process {workers[1].pid} is started in its place\n")
            task = await show(engine, task, until=lambda task: task.status.is_terminal)
    finally:
        if workers[-1].returncode is None:
            workers[-1].kill()
    conclude(task, measured=Counter(log.read_text().split()), pids={worker.pid for worker in workers})


async def start(*arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, __file__, *arguments, stdout=PIPE)


async def show(engine: Engine, task: Task, until: Callable[[Task], bool]) -> Task:
    """Print a line whenever the task got further."""
    while not until(task):
        before, task = task.progress, await engine.wait(task, timeout=10)
        if task.progress and task.progress != before:
            done = int(task.progress.done)
            bar = "###" * done + "..." * (len(CITIES) - done)
            print(f"  [{bar}]  {done}/{len(CITIES)}  {task.status_message}", flush=True)
    return task


def is_half_done(task: Task) -> bool:
    return task.progress is not None and task.progress.done >= len(CITIES) / 2


def conclude(task: Task, measured: Counter[str], pids: set[int]) -> None:
    rows: list[Row] = decode(task.result) or []
    print(f"\n  {'city':<10} {'celsius':>7}   {'measured by':<14} {'attempt':>7} {'times':>6}")
    for row in rows:
        times = measured[row["city"]]
        print(f"  {row['city']:<10} {row['celsius']:>7}   process {row['pid']:<6} {row['attempt']:>7} {times:>6}")
    each_once = measured == Counter(CITIES.keys())
    if not (task.status is Status.COMPLETED and each_once and {row["pid"] for row in rows} == pids):
        sys.exit(f"\nThe promise is broken: {task}")
    print(f"\n  {task.status} on attempt {task.attempt}, after {task.losses} lost worker; no step was done twice.\n")


if __name__ == "__main__":
    logging.getLogger("coatcheck").setLevel(logging.ERROR)  # advice to operators is not what this is about
    if len(sys.argv) > 1:
        asyncio.run({"submit": submit, "work": work}[sys.argv[1]](*sys.argv[2:]))
    else:
        with TemporaryDirectory() as folder:
            asyncio.run(asyncio.wait_for(demo(Path(folder)), timeout=28))
