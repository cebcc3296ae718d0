"""The other reads: listings, journals, work for workers, what is overdue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from coatcheck.store import EVERYONE, Query
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.rows import is_storable, number_of
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.stores.readable import Readable
from coatcheck.task import Entry, Task

_END = ((1 << 63) - 1, "")
"""Newer than any task."""
_WORKS = """
with recursive k (work) as (
    select min(work) from @.task where is_waiting
    union all select (select min(work) from @.task where is_waiting and work > k.work) from k where k.work is not null
) select work from k where work is not null
"""  # hops from one to the next, where `distinct` would read the whole index
# Each part of these is a range of an index, in order: none is read further than needed.
_LIST = f"""
select id, owner, body from (
    (
        select id, owner, body, created_at from @.task where not is_waiting and (created_at, id) < ($1, $2)
        order by created_at desc, id desc limit $3
    ) union all (
        select t.* from ({_WORKS}) w cross join lateral (
            select id, owner, body, created_at from @.task
            where is_waiting and work = w.work and (created_at, id) < ($1, $2)
            order by created_at desc, id desc limit $3
        ) t
    )
) t order by created_at desc, id desc limit $3
"""
_OF_OWNER_BY_STATE = """(
    select id, owner, body, created_at from @.task
    where scope = $4 and owner is not distinct from $5 and is_waiting = {} and (created_at, id) < ($1, $2)
    order by created_at desc, id desc limit $3
)"""
_LIST_OWNER = f"""
select id, owner, body from (
    {_OF_OWNER_BY_STATE.format("true")} union all {_OF_OWNER_BY_STATE.format("false")}
) t order by created_at desc, id desc limit $3
"""  # merged as they are read: rows that are not on the page are not looked at
_HELD = """
select t.id, t.owner, t.body from @.begun b join @.task t on t.id = b.id
where b.lease_until is not null and (b.created_at, b.id) < ($1, $2) {}
order by b.created_at desc, b.id desc limit $3
"""
_OF_OWNER = "and b.scope = $4 and t.owner is not distinct from $5"
_WAITING = """
select t.id, t.owner, t.body from unnest($1::bigint[]) w (work) cross join lateral (
    select id, owner, body, created_at from @.task
    where is_waiting and work = w.work order by created_at, id limit $2
) t order by t.created_at, t.id limit $2
"""
_OVERDUE = """
(select id, owner, body from @.task where expires_at <= $1 order by expires_at limit $2)
union all (
    select t.id, t.owner, t.body from @.begun b join @.task t on t.id = b.id
    where b.lease_until <= $1 order by b.lease_until limit $2
)
"""
_JOURNAL = """
select e.number, t.owner, e.body from @.task t join @.entry e on e.task_id = t.id
where t.id = $1 and e.number > $2 order by e.number limit $3
"""


class Reader:
    def __init__(self, connections: Connections, schema: str, codec: Codec) -> None:
        self._connections, self._codec = connections, codec
        self._readable = Readable(codec)
        self._lists = {
            (False, False): in_schema(_LIST, schema),
            (False, True): in_schema(_LIST_OWNER, schema),
            (True, False): in_schema(_HELD.format(""), schema),
            (True, True): in_schema(_HELD.format(_OF_OWNER), schema),
        }
        """By whether they are of what is held, and of one owner."""
        self._waiting, self._works = in_schema(_WAITING, schema), in_schema(_WORKS, schema)
        self._overdue, self._journal = in_schema(_OVERDUE, schema), in_schema(_JOURNAL, schema)

    async def list(self, query: Query) -> Sequence[Task]:
        after = (microseconds(query.after[0]), query.after[1]) if query.after else _END
        owned = () if query.owner is EVERYONE else (number_of(query.owner), query.owner)
        if not is_storable(after[1], *owned[1:]):
            return []
        sql = self._lists[query.is_held, bool(owned)]
        return await self._readable.first(query.limit, lambda limit: self._tasks(sql, *after, limit, *owned))

    async def journal(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        rows = await self._connections.ask(self._journal, task_id, after, limit)
        return [self._codec.load_entry(body, task_id, owner, number) for number, owner, body in rows]

    async def waiting(self, tools: Collection[str], limit: int, *, is_for_others: bool) -> Sequence[Task]:
        works = {number_of(tool) for tool in tools}
        if is_for_others:
            works = {row[0] for row in await self._connections.ask(self._works)} - works
        if not works:
            return []
        return await self._readable.first(limit, lambda limit: self._tasks(self._waiting, list(works), limit))

    async def overdue(self, now: datetime, limit: int) -> Sequence[Task]:
        return await self._readable.first(limit, lambda limit: self._tasks(self._overdue, microseconds(now), limit))

    async def _tasks(self, sql: str, *values: object) -> list[Task]:
        rows = {row[0]: row for row in await self._connections.ask(sql, *values)}
        return [task for task_id, owner, body in rows.values() if (task := self._readable.load(body, task_id, owner))]
