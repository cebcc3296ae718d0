"""Durable creates per second, with many callers at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.line import Line, Settings, Target, compared
from benchmarks.naive import BestStore, NaiveStore, naive_engine
from benchmarks.rows import submit
from benchmarks.timing import CALLERS, Spent, alternate, spent, together
from coatcheck.engine import Engine
from coatcheck.policy import Policy
from coatcheck.stores.sqlite.store import SQLiteStore

_POLICY = Policy(quota=None)


def run(settings: Settings) -> list[Line]:
    anyone, owners = [None] * CALLERS, [f"owner-{number}" for number in range(CALLERS)]
    return [
        asyncio.run(_run(settings, f"durable creates, {CALLERS} callers", anyone, NaiveStore, Target(">=", 6))),
        asyncio.run(_run(settings, "the same, rival at its best", anyone, BestStore)),
        # Worse for all: the index by owner then grows in as many places as there are owners.
        asyncio.run(_run(settings, "the same, an owner each", owners, NaiveStore)),
    ]


async def _run(
    settings: Settings,
    name: str,
    owners: Sequence[str | None],
    rival: type[NaiveStore] | type[BestStore],
    target: Target | None = None,
) -> Line:
    # A round of four turns is more than our writer commits between two checkpoints: both sides pay for theirs.
    each = settings.scaled(64, 16)
    folder = settings.folder / name
    folder.mkdir()
    ours, theirs = folder / "ours.db", folder / "naive.db"
    async with SQLiteStore(ours) as store, rival(theirs) as naive:
        turns = [
            partial(_create, engine, owners, each) for engine in (Engine(store, _POLICY), naive_engine(naive, _POLICY))
        ]
        for turn in turns:
            await turn()
        rounds = await alternate(settings.rounds, *turns, figure=lambda spent: spent.per_second)
    if _rows(ours) != _rows(theirs):
        raise RuntimeError(f"Not the same work: {_rows(ours)} and {_rows(theirs)} rows")
    return compared(
        name,
        "/s",
        rounds,
        rival="aiosqlite, in one trip" if rival is BestStore else "aiosqlite, as its README does",
        target=target,
        note=f"{_rows(ours)} creates on either side, WAL, synchronous=FULL",
    )


async def _create(engine: Engine, owners: Sequence[str | None], each: int) -> Spent:
    async def caller(owner: str | None) -> None:
        for _ in range(each):
            await submit(engine, owner)

    return await spent(each * CALLERS, together([caller(owner) for owner in owners]))


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("select count(*) from task").fetchone()[0]
