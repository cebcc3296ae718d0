"""Inserts, replaces, deletes and reads: what they send, and what the answers mean."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from secrets import randbits
from typing import Any, TypeVar

import msgspec

from coatcheck.errors import InvalidArgument, QuotaExceeded, StoreError
from coatcheck.stores.codec import Codec, microseconds
from coatcheck.stores.postgres.batches import Operation
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.task import Entry, Task

Told = Callable[[Iterable["Write"]], None]
"""Is called with what has been written, before those are who wrote it."""

UNCHANGED = object()
"""In place of a task: there is no news of it."""
_encoder = msgspec.json.Encoder()
LARGEST = (1 << 63) - 1
"""As a version, one that no task has."""
_COUNTED_EACH_TIME = 256
_MOST_OWNERS = 10_000
_WAITING, _HELD, _PARKED, _FINISHED = range(4)
_REFUSED, _WRITTEN, _LOCKED = range(3)


class Write(Operation):
    """A write, with the task as it will be, and the number of the tool that then waits for a worker, if it does."""

    __slots__ = ("body", "row", "task", "work")
    is_first = False
    """Of this task: nobody can have waited for it."""

    def __init__(
        self, task: Task, row: tuple[object, ...], body: bytes = b"", names: Sequence[object] = (), size: int = 0
    ) -> None:
        super().__init__(names, size or len(body))
        self.task, self.row, self.body = task, row, body
        self.work = number_of(task.call.full_name) if task.is_waiting else None


class Insert(Write):
    __slots__ = ("quota", "spare")
    is_first = True

    def __init__(self, task: Task, quota: int | None, codec: Codec) -> None:
        once = _once_of(task)
        tool, body = task.call.full_name, codec.dump(task)
        names = (task.id, task.owner, tool, task.version, number_of(task.owner), number_of(tool))
        row = (*names, microseconds(task.created_at), *_times(task), _state_of(task), once)
        super().__init__(task, row, body, (task.id,) if once is None else (task.id, once))
        self.quota, self.spare = quota, 0


class Inserts:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select * from @.insert_1($1, $2, $3, $4)", schema)
        self._codec, self._told = codec, told
        self._spice = number_of(schema)
        self._left: dict[str | None, int] = {}
        """How many tasks an owner may add before its unfinished ones are counted again."""

    def values(self, batch: Sequence[Insert]) -> Sequence[object]:
        before = Counter[str | None]()
        rooms = [None if insert.quota is None else self._room(insert, insert.quota, before) for insert in batch]
        rows = [(*insert.row, room) for insert, room in zip(batch, rooms, strict=True)]
        counted = {insert.task.owner for insert, room in zip(batch, rooms, strict=True) if room is not None}
        locks = sorted(number_of(owner) ^ self._spice for owner in counted)
        return as_json(rows), [insert.body for insert in batch], self._codec.key_id, locks

    def settle(self, batch: Sequence[Insert], rows: Sequence[Any]) -> list[Insert]:
        obstacles: dict[int, Any] = {row["n"] - 1: row for row in rows}
        written = [insert for number, insert in enumerate(batch) if number not in obstacles]
        self._told(written)
        for insert in written:
            if insert.spare:
                self._left[insert.task.owner] = insert.spare
            insert.settle(insert.task)
        return [batch[number] for number, row in obstacles.items() if not self._is_settled(batch[number], row)]

    def _room(self, insert: Insert, quota: int, before: Counter[str | None]) -> int | None:
        """Return below how many unfinished tasks of the owner this one gets in; None: no need to count.

        Counting thousands for each new one would cost more than all the rest. So with a large quota room is made sure
        of for some more at once: near enough, as several programs may do so at the same time.
        """
        owner = insert.task.owner
        insert.spare = 0
        if quota > _COUNTED_EACH_TIME:
            if left := self._left.pop(owner, 0):
                if left > 1:
                    self._left[owner] = left - 1
                return None
            insert.spare = quota // 8
        before[owner] += 1
        return quota - insert.spare - before[owner] + 1

    def _is_settled(self, insert: Insert, obstacle: Any) -> bool:
        """Deal with what stood in the way; say whether that was the end of it."""
        task, quota = insert.task, insert.quota
        if obstacle["kept_id"] is not None:
            self._settle_kept(insert, obstacle)
        elif quota is not None and obstacle["unfinished"] >= quota:
            insert.fail(QuotaExceeded(quota, task.owner))
        else:
            if insert.spare and quota is not None:
                if len(self._left) > _MOST_OWNERS:
                    self._left.clear()
                self._left[task.owner] = max((quota - obstacle["unfinished"]) // 2, 1)
            return False
        return True

    def _settle_kept(self, insert: Insert, obstacle: Any) -> None:
        task = insert.task
        try:
            kept = self._codec.load(obstacle["kept_body"], obstacle["kept_id"], obstacle["kept_owner"])
        except StoreError as error:
            insert.fail(error)
            return
        if insert.is_again and kept.id == task.id and kept.created_at == task.created_at and kept.owner == task.owner:
            self._told((insert,))
            insert.settle(task)
        elif task.idempotency_key is not None and _once_of(kept) == _once_of(task):
            insert.settle(kept)
        else:
            insert.fail(InvalidArgument(f"Task {task.id} exists already."))


class Replace(Write):
    __slots__ = ("entries",)

    def __init__(self, task: Task, entries: Sequence[Entry], codec: Codec) -> None:
        body = codec.dump(task)
        row = (task.id, task.version, *_times(task), _state_of(task), _new_mark())
        first = task.entries - len(entries) + 1
        self.entries = [(number, codec.dump_entry(entry, task, number)) for number, entry in enumerate(entries, first)]
        super().__init__(task, row, body, size=len(body) + sum(len(line) for _, line in self.entries))


class Replaces:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select @.replace_1($1, $2, $3, $4, $5)", schema)
        self._codec, self._told = codec, told

    def values(self, batch: Sequence[Replace]) -> Sequence[object]:
        rows = as_json([(*replace.row, replace.is_again) for replace in batch])
        lines = as_json([(place, number) for place, replace in enumerate(batch) for number, _ in replace.entries])
        bodies = [body for replace in batch for _, body in replace.entries]
        return rows, [replace.body for replace in batch], self._codec.key_id, lines, bodies

    def settle(self, batch: Sequence[Replace], rows: Sequence[Any]) -> list[Replace]:
        return _settle_writes(batch, rows[0][0], self._told)


class Delete(Write):
    __slots__ = ()

    def __init__(self, task: Task) -> None:
        super().__init__(task, (task.id, task.version))
        self.work = None


class Deletes:
    def __init__(self, schema: str, told: Told) -> None:
        self.sql, self._told = in_schema("select @.delete_1($1)", schema), told

    def values(self, batch: Sequence[Delete]) -> Sequence[object]:
        return (as_json([(*delete.row, delete.is_again) for delete in batch]),)

    def settle(self, batch: Sequence[Delete], rows: Sequence[Any]) -> list[Delete]:
        return _settle_writes(batch, rows[0][0], self._told)


class Get(Operation):
    __slots__ = ("newer_than", "task_id")

    def __init__(self, task_id: str, newer_than: int = -1) -> None:
        """Read the task; if its version is not above `newer_than`, the result is UNCHANGED."""
        super().__init__()
        self.task_id, self.newer_than = task_id, newer_than


class Gets:
    def __init__(self, schema: str, codec: Codec) -> None:
        self._codec = codec
        self.sql = in_schema(
            "select t.id, t.owner, t.version, case when t.version > (x->1)::bigint then t.body end"
            " from jsonb_array_elements($1) x join @.task t on t.id = x->>0",
            schema,
        )

    def values(self, batch: Sequence[Get]) -> Sequence[object]:
        wanted: dict[str, int] = {}
        for get in batch:
            wanted[get.task_id] = min(get.newer_than, wanted.get(get.task_id, get.newer_than))
        return (as_json(list(wanted.items())),)

    def settle(self, batch: Sequence[Get], rows: Sequence[Any]) -> list[Get]:
        found = {row[0]: row for row in rows}
        loaded: dict[str, Task] = {}
        for get in batch:
            row = found.get(get.task_id)
            if row is None:
                get.settle(None)
            elif row[2] <= get.newer_than:
                get.settle(UNCHANGED)
            else:
                try:
                    task = loaded.get(get.task_id) or self._codec.load(row[3], row[0], row[1])
                except StoreError as error:
                    get.fail(error)
                else:
                    get.settle(loaded.setdefault(get.task_id, task))
        return []


_Written = TypeVar("_Written", bound=Write)


def _settle_writes(batch: Sequence[_Written], outcomes: Sequence[int] | None, told: Told) -> list[_Written]:
    """No outcomes: all were written."""
    if outcomes is None:
        outcomes = [_WRITTEN] * len(batch)
    told([write for write, outcome in zip(batch, outcomes, strict=True) if outcome == _WRITTEN])
    for write, outcome in zip(batch, outcomes, strict=True):
        if outcome != _LOCKED:
            write.settle(outcome == _WRITTEN)
    return [write for write, outcome in zip(batch, outcomes, strict=True) if outcome == _LOCKED]


def is_storable(*texts: str | None) -> bool:
    """Say whether PostgreSQL can keep these texts. What it cannot, it cannot have either."""
    for text in texts:
        if text is not None and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                return False
        if text is not None and "\0" in text:
            return False
    return True


@lru_cache(4096)
def number_of(text: str | None) -> int:
    """Return a number by which the index knows an owner or a tool, however long its name."""
    raw = b"-" if text is None else b"+" + text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big", signed=True)


def key_of(task_id: str) -> str:
    """Return what stands for a task when others are told of it. Two may share it: that wakes somebody for nothing."""
    return f"{zlib.crc32(task_id.encode('utf-8', 'surrogatepass')):08x}"


def as_json(rows: Sequence[object]) -> str:
    return _encoder.encode(rows).decode()


def _once_of(task: Task) -> str | None:
    """Return what no two tasks with the same owner and idempotency key may share."""
    if task.idempotency_key is None:
        return None
    raw = f"{task.idempotency_key}\0{'-' if task.owner is None else f'+{task.owner}'}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def _times(task: Task) -> tuple[int | None, int | None]:
    return (
        microseconds(task.lease.until) if task.lease else None,
        microseconds(task.expires_at) if task.expires_at else None,
    )


def _state_of(task: Task) -> int:
    if task.status.is_terminal:
        return _FINISHED
    if task.lease:
        return _HELD
    return _WAITING if task.is_waiting else _PARKED


_marks = count(randbits(62))


def _new_mark() -> int:
    """Return what a write is recognised by should it have to be sent twice."""
    return next(_marks) & LARGEST
