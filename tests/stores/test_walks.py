"""Whatever is written, in whatever order, every store says of it what the one in memory says.

A store knows no rules, so here none are kept to: a task that has ended may be waiting, or held, in its next version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coatcheck.errors import CoatcheckError
from coatcheck.payload import encode
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.memory import MemoryStore
from coatcheck.task import Lease, Status, Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.conftest import STORES

_STEPS, _MOST_AT_ONCE = 40, 20
_OWNERS, _TOOLS = ("ann", "bob", None), ("slow", "other")
_LONG = timedelta(days=1)


class Walk:
    """Does the same to two stores, and compares what they say."""

    def __init__(self, chance: Random, store: Store, model: Store) -> None:
        self._chance, self._store, self._model = chance, store, model
        self._tasks: dict[str, Task] = {}
        """What is kept, by id."""
        self._made = 0

    async def step(self) -> None:
        """Write several tasks at once, or one that there may be no room for."""
        if self._chance.random() < 0.2:
            await self._write(self._new(), "insert", quota=self._chance.randrange(1, 8))
        else:
            some = self._chance.randrange(min(len(self._tasks), _MOST_AT_ONCE) + 1)
            there = self._chance.sample(sorted(self._tasks), some)
            # Of a task that is deleted and inserted at the same time it is open which comes first.
            others = [task for task in self._tasks.values() if task.id not in there]
            inserts = (self._insert(others) for _ in range(self._chance.randrange(6)))
            await asyncio.gather(*map(self._change, there), *inserts)

    async def compare(self) -> None:
        for owner in (*_OWNERS, EVERYONE):
            for is_held in (True, False):
                await self._same("list", Query(owner=owner, is_held=is_held, limit=1000))
                await self._same_pages(Query(owner=owner, is_held=is_held, limit=3))
        for tools in (_TOOLS, _TOOLS[:1]):
            for is_for_others in (True, False):
                for limit in (3, 100):
                    await self._same("waiting", tools, limit=limit, timeout=0, is_for_others=is_for_others)
        for moment in (NOW, NOW + _LONG / 2, NOW + 2 * _LONG):
            await self._same("overdue", moment, limit=1000, in_order=False)
        for task_id in self._tasks:
            await self._same("get", task_id)
            await self._same("journal", task_id)

    async def _insert(self, kept: Sequence[Task]) -> None:
        if kept and self._chance.random() < 0.1:
            await self._try("insert", replace(self._chance.choice(kept), owner="eve"))
        else:
            await self._write(self._new(), "insert")

    async def _change(self, task_id: str) -> None:
        kept = self._tasks[task_id]
        lot = self._chance.random()
        entries = [an_entry(number) for number in range(self._chance.choice((0, 0, 0, 1, 2)))]
        task = self._in_any_state(replace(kept, version=kept.version + 1, entries=kept.entries + len(entries)))
        if lot < 0.1:
            await self._try("replace", replace(task, version=self._chance.choice((kept.version, kept.version + 2))))
        elif lot < 0.2:
            await self._try("delete", replace(kept, version=kept.version + 1))
        elif lot < 0.3:
            await self._try("delete", kept)
            del self._tasks[task_id]
        else:
            await self._write(task, "replace", entries)

    async def _write(self, task: Task, *how: Any, **more: Any) -> None:
        """Write a task as it is kept from now on, unless it is refused."""
        method, *values = how
        if await self._try(method, task, *values, **more) in (task, True):
            self._tasks[task.id] = task

    async def _try(self, method: str, *values: Any, **more: Any) -> object:
        outcome, expected = await asyncio.gather(
            *(_outcome(getattr(store, method)(*values, **more)) for store in (self._store, self._model))
        )
        assert outcome == expected
        return outcome

    async def _same_pages(self, query: Query) -> None:
        while page := await self._same("list", query):
            query = replace(query, after=page[-1].position)

    async def _same(self, method: str, *values: Any, in_order: bool = True, **more: Any) -> Any:
        said, expected = [await getattr(store, method)(*values, **more) for store in (self._store, self._model)]
        if not in_order:
            said, expected = ({task.id: task for task in tasks} for tasks in (said, expected))
        assert said == expected or list(said) == list(expected)
        return said

    def _new(self) -> Task:
        self._made += 1
        tool, age = self._chance.choice(_TOOLS), self._chance.random()
        if tool == _TOOLS[0]:  # some of one moment; of two tools it is open which comes first then
            age = self._chance.choice((age, self._chance.randrange(3) / 3))
        task = a_task(f"{self._made}", self._chance.choice(_OWNERS), tool=tool)
        return self._in_any_state(replace(task, created_at=NOW - age * _LONG))

    def _in_any_state(self, task: Task) -> Task:
        status = self._chance.choice((Status.WORKING, Status.WORKING, Status.INPUT_REQUIRED, Status.COMPLETED))
        is_held = status is not Status.COMPLETED and self._chance.random() < 0.5
        return replace(
            task,
            status=status,
            lease=Lease(worker="w", until=NOW + self._chance.random() * _LONG) if is_held else None,
            expires_at=NOW + self._chance.random() * _LONG if self._chance.random() < 0.5 else task.expires_at,
            result=encode("x" * self._chance.randrange(300)),
        )


async def _outcome(doing: Awaitable[object]) -> object:
    """Return what came of it; of a refusal, which it was."""
    try:
        return await doing
    except CoatcheckError as refusal:
        return type(refusal)


@pytest.mark.anyio
@pytest.mark.parametrize("store", [kind for kind in STORES if kind != "memory"], indirect=True)
@pytest.mark.parametrize("number", range(3))
async def test_x04_a_store_says_what_memory_says(number: int, store: Store) -> None:
    seed = Random().randrange(1 << 32)
    print(f"seed {seed}")
    walk = Walk(Random(seed), store, MemoryStore())
    for _ in range(_STEPS):
        await walk.step()
        await walk.compare()
