"""Reads of tasks by their ids, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.errors import StoreError
from coatcheck.stores.codec import Codec
from coatcheck.stores.postgres.batches import Operation
from coatcheck.stores.postgres.rows import as_json
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.task import Task

UNCHANGED = object()
"""In place of a task: there is no news of it."""


class Get(Operation):
    """Reads a task; if its version is not above `newer_than`, the result is UNCHANGED."""

    task_id: str
    newer_than: int = -1


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
