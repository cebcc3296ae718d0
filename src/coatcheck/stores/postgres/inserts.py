"""Inserts: what they send, and what may stand in their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from coatcheck.errors import InvalidArgument, QuotaExceeded, StoreError
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import state_of
from coatcheck.stores.postgres.rows import Row, new_row, number_of, once_of
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.stores.postgres.writes import Told, Write, count_begun
from coatcheck.task import Task

_COUNTED_EACH_TIME = 256
_MOST_OWNERS = 10_000


class Insert(Write):
    row: Row
    once: bytes | None
    quota: int | None
    spare: int = 0
    """How many more the owner may add before its tasks are counted again, once this one is in."""
    is_first: ClassVar[bool] = True

    @property
    def names(self) -> Collection[object]:
        return (self.task.id,) if self.once is None else (self.task.id, self.once)


def an_insert(task: Task, quota: int | None, codec: Codec) -> Insert:
    state, body, once = state_of(task), codec.dump(task), once_of(task)
    row = new_row(task, state, body, once)
    return Insert(task, state, row, once, quota, size=len(body), is_plain=quota is None and once is None)


class InsertAll:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select @.insert_all_1($1, $2, $3)", schema)
        self._codec, self._told = codec, told

    def values(self, batch: Sequence[Insert]) -> Sequence[object]:
        return [insert.row for insert in batch], count_begun(batch), self._codec.key_id

    def settle(self, batch: Sequence[Insert], rows: Sequence[Any]) -> bool:
        self._told(batch)
        for insert in batch:
            insert.settle(insert.task)
        return True


class InsertEach:
    def __init__(self, schema: str, codec: Codec, told: Told) -> None:
        self.sql = in_schema("select * from @.insert_each_1($1, $2, $3, $4)", schema)
        self._codec, self._told = codec, told
        self._spice = number_of(schema)
        self._left: dict[str | None, int] = {}
        """How many tasks an owner may add before its unfinished ones are counted again."""

    def values(self, batch: Sequence[Insert]) -> Sequence[object]:
        before = Counter[str | None]()
        rooms = [None if insert.quota is None else self._room(insert, insert.quota, before) for insert in batch]
        counted = {insert.task.owner for insert, room in zip(batch, rooms, strict=True) if room is not None}
        locks = sorted(number_of(owner) ^ self._spice for owner in counted)
        return [insert.row for insert in batch], rooms, self._codec.key_id, locks

    def settle(self, batch: Sequence[Insert], rows: Sequence[Any]) -> list[Insert]:
        obstacles: dict[int, Any] = {row["n"] - 1: row for row in rows}
        written = [insert for number, insert in enumerate(batch) if number not in obstacles]
        self._told(written)
        for insert in written:
            if insert.spare:
                self._allow(insert.task.owner, insert.spare)
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

    def _allow(self, owner: str | None, more: int) -> None:
        if len(self._left) >= _MOST_OWNERS:
            self._left.clear()
        self._left[owner] = more

    def _is_settled(self, insert: Insert, obstacle: Any) -> bool:
        """Deal with what stood in the way; say whether that was the end of it."""
        task, quota = insert.task, insert.quota
        if obstacle["kept_id"] is not None:
            self._settle_kept(insert, obstacle)
        elif quota is not None and obstacle["unfinished"] >= quota:
            insert.fail(QuotaExceeded(quota, task.owner))
        else:
            if insert.spare and quota is not None:
                self._allow(task.owner, max((quota - obstacle["unfinished"]) // 2, 1))
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
        elif insert.once is not None and once_of(kept) == insert.once:
            insert.settle(kept)
        else:
            insert.fail(InvalidArgument(f"Task {task.id} exists already."))
