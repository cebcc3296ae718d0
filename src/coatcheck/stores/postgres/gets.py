"""Reads of tasks by their ids, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.errors import StoreError
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import END
from coatcheck.stores.postgres.batches import Operation
from coatcheck.stores.postgres.rows import as_json
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.task import Task

UNCHANGED = object()
"""In place of a task: there is no news of it."""


class Get(Operation):
    """Reads a task; if its version is not above `newer_than`, the result is UNCHANGED.

    One of another `scope`, the number of an owner, or that has expired by `alive_at`, is not there.
    """

    task_id: str
    scope: int | None
    alive_at: int
    newer_than: int = -1


class Gets:
    def __init__(self, schema: str, codec: Codec) -> None:
        self._codec = codec
        self.sql = in_schema(
            # What is asked is read in any case (`offset 0`), so that it takes as long if nothing is found.
            "select t.id, x.scope, t.owner, t.version, case when t.version > x.newer_than then t.body end from ("
            "select x->>0 id, (x->>1)::bigint as scope, (x->2)::bigint newer_than, (x->3)::bigint alive_at"
            " from jsonb_array_elements($1) x offset 0"
            ") x join @.task t on t.id = x.id and t.scope = coalesce(x.scope, t.scope)"
            f" and coalesce(t.expires_at, {END}) > x.alive_at",
            schema,
        )

    def values(self, batch: Sequence[Get]) -> Sequence[object]:
        wanted: dict[tuple[str, int | None], tuple[int, int]] = {}
        for get in batch:
            place = get.task_id, get.scope
            least, earliest = wanted.get(place, (get.newer_than, get.alive_at))
            wanted[place] = min(get.newer_than, least), min(get.alive_at, earliest)
        return (as_json([(*place, *limits) for place, limits in wanted.items()]),)

    def settle(self, batch: Sequence[Get], rows: Sequence[Any]) -> list[Get]:
        found = {(row[0], row[1]): row for row in rows}
        loaded: dict[str, Task] = {}
        for get in batch:
            row = found.get((get.task_id, get.scope))
            if row is None:
                get.settle(None)
            elif row[3] <= get.newer_than:
                get.settle(UNCHANGED)
            else:
                try:
                    task = loaded.get(get.task_id) or self._codec.load(row[4], row[0], row[2])
                except StoreError as error:
                    get.fail(error)
                else:
                    get.settle(loaded.setdefault(get.task_id, task))
        return []
