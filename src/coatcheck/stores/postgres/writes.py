"""Replaces and deletes: what they send, and what the answers mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import FINISHED, WAITING, state_of
from coatcheck.stores.postgres.batches import Operation
from coatcheck.stores.postgres.rows import BEGUN, Row, next_row, number_of
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.task import Entry, Task

Told = Callable[[Iterable["Write"]], None]
"""Is called with what has been written, before those are who wrote it."""

_REFUSED, _WRITTEN, _LOCKED = range(3)


class Write(Operation):
    """A write, with the task as it will be."""

    task: Task
    state: int
    is_first: ClassVar[bool] = False
    """Of this task: nobody can have waited for it."""

    @property
    def names(self) -> Collection[object]:
        return (self.task.id,)

    @property
    def work(self) -> int | None:
        """The number of the tool that then waits for a worker, if it does."""
        return number_of(self.task.call.full_name) if self.state == WAITING else None


def count_begun(batch: Sequence[Write]) -> int:
    return sum(write.state in BEGUN for write in batch)


class Replace(Write):
    row: Row
    entries: Sequence[tuple[int, bytes]]


def a_replace(task: Task, entries: Sequence[Entry], mark: int, codec: Codec) -> Replace:
    state, body, size = state_of(task), codec.dump(task), 0
    lines: Sequence[tuple[int, bytes]] = ()
    if entries:
        first = task.entries - len(entries) + 1
        lines = [(number, codec.dump_entry(entry, task, number)) for number, entry in enumerate(entries, first)]
        size = sum(len(line) for _, line in lines)
    row = next_row(task, state, mark, body)
    return Replace(task, state, row, lines, size=size + len(body), is_plain=not entries)


class ReplaceAll:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select @.replace_all_1($1, $2, $3)", schema)
        self._codec, self._told = codec, told

    def values(self, batch: Sequence[Replace]) -> Sequence[object]:
        # Whoever else writes some of these does so in the same order: nobody waits for one who waits for them.
        rows = sorted((replace.row for replace in batch), key=itemgetter(0))
        return rows, count_begun(batch), self._codec.key_id

    def settle(self, batch: Sequence[Replace], rows: Sequence[Any]) -> bool:
        if not rows[0][0]:
            return False
        self._told(batch)
        for replace in batch:
            replace.settle(True)
        return True


class ReplaceEach:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select @.replace_each_1($1, $2, $3, $4, $5, $6)", schema)
        self._codec, self._told = codec, told

    def values(self, batch: Sequence[Replace]) -> Sequence[object]:
        lines = [(place, *entry) for place, replace in enumerate(batch, 1) for entry in replace.entries]
        places, numbers, bodies = zip(*lines, strict=True) if lines else ((), (), ())
        rows, repeats = [replace.row for replace in batch], [replace.is_again for replace in batch]
        return rows, repeats, self._codec.key_id, places, numbers, bodies

    def settle(self, batch: Sequence[Replace], rows: Sequence[Any]) -> list[Replace]:
        return _settle(batch, rows[0][0], self._told)


class Delete(Write): ...


def a_delete(task: Task) -> Delete:
    return Delete(task, FINISHED)


class DeleteEach:
    def __init__(self, schema: str, told: Told) -> None:
        self.sql, self._told = in_schema("select @.delete_each_1($1, $2, $3)", schema), told

    def values(self, batch: Sequence[Delete]) -> Sequence[object]:
        ids, versions = [delete.task.id for delete in batch], [delete.task.version for delete in batch]
        return ids, versions, [delete.is_again for delete in batch]

    def settle(self, batch: Sequence[Delete], rows: Sequence[Any]) -> list[Delete]:
        return _settle(batch, rows[0][0], self._told)


_Written = TypeVar("_Written", bound=Write)


def _settle(batch: Sequence[_Written], outcomes: Sequence[int] | None, told: Told) -> list[_Written]:
    """No outcomes: all were written."""
    if outcomes is None:
        outcomes = [_WRITTEN] * len(batch)
    told([write for write, outcome in zip(batch, outcomes, strict=True) if outcome == _WRITTEN])
    for write, outcome in zip(batch, outcomes, strict=True):
        if outcome != _LOCKED:
            write.settle(outcome == _WRITTEN)
    return [write for write, outcome in zip(batch, outcomes, strict=True) if outcome == _LOCKED]
