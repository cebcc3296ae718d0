"""The other reads: listings, journals, work for workers, what is overdue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from coatcheck.store import EVERYONE, Query
from coatcheck.stores.codec import Codec, microseconds
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.operations import is_storable, number_of
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.stores.readable import Readable
from coatcheck.task import Entry, Task

_HELD, _ALL_STATES = (1,), (0, 1, 2, 3)
_END = ((1 << 63) - 1, "")
"""Newer than any task."""
# Each state is a range of an index, in order: none is read further than needed.
_LIST = """
select t.id, t.owner, t.body from unnest($1::smallint[]) s (state) cross join lateral (
    select id, owner, body, created_at from @.task
    where {} state = s.state and (created_at, id) < ($2, $3) order by created_at desc, id desc limit $4
) t order by t.created_at desc, t.id desc limit $4
"""
_WAITING = """
select t.id, t.owner, t.body from unnest($1::bigint[]) w (work) cross join lateral (
    select id, owner, body, created_at from @.task
    where state = 0 and work = w.work order by created_at, id limit $2
) t order by t.created_at, t.id limit $2
"""
_WAITING_WORKS = """
with recursive k (work) as (
    select min(work) from @.task where state = 0
    union all select (select min(work) from @.task where state = 0 and work > k.work) from k where k.work is not null
) select work from k where work is not null
"""  # hops from one to the next, where `distinct` would read the whole index
_OVERDUE = """
(select id, owner, body from @.task where expires_at <= $1 order by expires_at limit $2)
union all (select id, owner, body from @.task where lease_until <= $1 order by lease_until limit $2)
"""
_JOURNAL = """
select e.number, t.owner, e.body from @.task t join @.entry e on e.task_id = t.id
where t.id = $1 and e.number > $2 order by e.number limit $3
"""


class Reader:
    def __init__(self, connections: Connections, schema: str, codec: Codec) -> None:
        self._connections, self._codec = connections, codec
        self._readable = Readable(codec)
        self._list = in_schema(_LIST.format(""), schema)
        self._list_owner = in_schema(_LIST.format("scope = $5 and owner is not distinct from $6 and"), schema)
        self._waiting, self._waiting_works = in_schema(_WAITING, schema), in_schema(_WAITING_WORKS, schema)
        self._overdue, self._journal = in_schema(_OVERDUE, schema), in_schema(_JOURNAL, schema)

    async def list(self, query: Query) -> Sequence[Task]:
        after = (microseconds(query.after[0]), query.after[1]) if query.after else _END
        states = _HELD if query.is_held else _ALL_STATES
        if query.owner is EVERYONE:
            sql, owner = self._list, ()
        else:
            sql, owner = self._list_owner, (number_of(query.owner), query.owner)
        if not is_storable(after[1], None if query.owner is EVERYONE else query.owner):
            return []
        return await self._readable.first(query.limit, lambda limit: self._tasks(sql, states, *after, limit, *owner))

    async def journal(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        rows = await self._connections.ask(self._journal, task_id, after, limit)
        return [self._codec.load_entry(body, task_id, owner, number) for number, owner, body in rows]

    async def waiting(self, tools: Collection[str], limit: int, *, is_for_others: bool) -> Sequence[Task]:
        works = {number_of(tool) for tool in tools}
        if is_for_others:
            works = {row[0] for row in await self._connections.ask(self._waiting_works)} - works
        if not works:
            return []
        return await self._readable.first(limit, lambda limit: self._tasks(self._waiting, list(works), limit))

    async def overdue(self, now: datetime, limit: int) -> Sequence[Task]:
        return await self._readable.first(limit, lambda limit: self._tasks(self._overdue, microseconds(now), limit))

    async def _tasks(self, sql: str, *values: object) -> list[Task]:
        rows = {row[0]: row for row in await self._connections.ask(sql, *values)}
        return [task for task_id, owner, body in rows.values() if (task := self._readable.load(body, task_id, owner))]
