"""The tables, and the functions that write them: one call, one transaction, for many tasks. `@.` is the schema.

Functions are numbered: while programs of two versions use one schema, each calls its own.
"""

from __future__ import annotations

_TABLES = """
create table @.task (
    id text collate "C" primary key, owner text, tool text not null, version bigint not null, scope bigint not null,
    work bigint not null, created_at bigint not null, lease_until bigint, expires_at bigint, state smallint not null,
    once bytea, stamps bytea not null, sealed_by text, body bytea not null
) with (
    fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);
create index task_owner on @.task (scope, state, created_at, id);
create index task_state on @.task (state, created_at, id);
create index task_waiting on @.task (work, created_at, id) where state = 0;
create index task_lease on @.task (lease_until) where lease_until is not null;
create index task_expiry on @.task (expires_at) where expires_at is not null;
create unique index task_once on @.task (once) where once is not null;
create table @.entry (
    task_id text collate "C" not null, number bigint not null, sealed_by text, body bytea not null,
    primary key (task_id, number)
) with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
create table @.sealing (key_id text primary key);
create unlogged table @.idle (store bigint primary key, works bigint[] not null) with (
    fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0
);
"""

# Rows come as JSON, as arrays of their columns: the driver takes longer over a dozen arrays of its own. A task that was
# not written is answered with what stands in its way: the task kept under its key or id, or too many.
_INSERT = """
create function @.insert_1(tasks jsonb, bodies bytea[], sealed text, locks bigint[])
returns table (n bigint, unfinished bigint, kept_id text, kept_owner text, kept_body bytea)
language plpgsql as $$
declare
    written text[];
begin
    perform pg_advisory_xact_lock(k) from unnest(locks) k;
    with made as (
        insert into @.task (
            id, owner, tool, version, scope, work, created_at, lease_until, expires_at, state, once, body, stamps,
            sealed_by
        )
        select x->>0, x->>1, x->>2, (x->3)::bigint, (x->4)::bigint, (x->5)::bigint, (x->6)::bigint, (x->>7)::bigint,
            (x->>8)::bigint, (x->9)::smallint, decode(x->>10, 'hex'), i.body, '', sealed
        from rows from (jsonb_array_elements(tasks), unnest(bodies)) i (x, body)
        where (x->>11) is null or (x->11)::bigint > (
            select count(*) from (
                select 1 from @.task t where t.scope = (x->4)::bigint and t.state < 3
                limit greatest((x->11)::bigint, 0)
            ) counted
        )
        on conflict do nothing returning id
    )
    select array_agg(id) into written from made;
    if cardinality(written) = cardinality(bodies) then
        return;
    end if;
    return query
    select i.n, (select count(*) from @.task t where t.scope = (x->4)::bigint and t.state < 3), k.id, k.owner, k.body
    from jsonb_array_elements(tasks) with ordinality i (x, n)
    left join lateral (
        (select t.id, t.owner, t.body from @.task t where t.once = decode(x->>10, 'hex'))
        union all (select t.id, t.owner, t.body from @.task t where t.id = x->>0) limit 1
    ) k on true
    where written is null or x->>0 <> all (written);
end
$$;
"""

# Rows that somebody else is just writing are passed over, so no batch ever waits for another. Such a one is tried
# again (2), unless it was a claim: then somebody else is just claiming it (0), if it was not us, before the connection
# broke. Nothing is returned if all were written.
_REPLACE = """
create function @.replace_1(tasks jsonb, bodies bytea[], sealed text, entries jsonb, entry_bodies bytea[])
returns smallint[]
language plpgsql as $$
declare
    written bigint[];
begin
    with locked as materialized (
        select i.x, i.body, i.n, t.ctid as place
        from rows from (jsonb_array_elements(tasks), unnest(bodies)) with ordinality i (x, body, n)
        join @.task t on t.id = x->>0 and t.version = (x->1)::bigint - 1
        for no key update of t skip locked
    ), changed as (
        update @.task t set version = (x->1)::bigint, lease_until = (x->>2)::bigint, expires_at = (x->>3)::bigint,
            state = (x->4)::smallint, stamps = substr(int8send((x->5)::bigint) || t.stamps, 1, 32), sealed_by = sealed,
            body = i.body
        from locked i where t.ctid = i.place
        returning i.n
    )
    select array_agg(n) into written from changed;
    if cardinality(entry_bodies) > 0 then
        insert into @.entry (task_id, number, sealed_by, body)
        select tasks->((x->0)::int)->>0, (x->1)::bigint, sealed, e.body
        from rows from (jsonb_array_elements(entries), unnest(entry_bodies)) e (x, body)
        where (x->0)::bigint + 1 = any (written);
    end if;
    if cardinality(written) = cardinality(bodies) then
        return null;
    end if;
    return (
        select array_agg(
            (case
                when i.n = any (written) then 1
                when t.version = (x->1)::bigint - 1 then
                    case when t.state = 0 and (x->4)::int = 1 and not (x->6)::boolean then 0 else 2 end
                when (x->6)::boolean and position(int8send((x->5)::bigint) in t.stamps) > 0 then 1
                else 0
            end)::smallint order by i.n
        )
        from jsonb_array_elements(tasks) with ordinality i (x, n) left join @.task t on t.id = x->>0
    );
end
$$;
"""

_DELETE = """
create function @.delete_1(tasks jsonb) returns smallint[]
language plpgsql as $$
declare
    written bigint[];
begin
    with locked as materialized (
        select i.n, t.ctid as place
        from jsonb_array_elements(tasks) with ordinality i (x, n)
        join @.task t on t.id = x->>0 and t.version = (x->1)::bigint
        for update of t skip locked
    ), gone as (
        delete from @.task t using locked i where t.ctid = i.place returning i.n, t.id
    ), forgotten as (
        delete from @.entry e using gone where e.task_id = gone.id
    )
    select array_agg(n) into written from gone;
    if cardinality(written) = jsonb_array_length(tasks) then
        return null;
    end if;
    return (
        select array_agg(
            (case
                when i.n = any (written) or ((x->2)::boolean and t.id is null) then 1
                when t.version = (x->1)::bigint then 2
                else 0
            end)::smallint order by i.n
        )
        from jsonb_array_elements(tasks) with ordinality i (x, n) left join @.task t on t.id = x->>0
    );
end
$$;
"""

# Tells everybody which tasks have changed; and for as many tasks of a tool as need workers, one store each that has
# idle ones. A store whose lock can be had is gone. Nothing of this need survive a crash: nobody waits for the disk.
_RING = """
create function @.ring_1(channel text, payloads text[], wanted bigint[], counts bigint[], ringer bigint) returns void
language plpgsql as $$
declare
    sought record;
    chosen bigint;
begin
    perform set_config('synchronous_commit', 'off', true);
    perform pg_notify(channel, p) from unnest(payloads) p;
    for sought in select * from unnest(wanted, counts) w (work, many) loop
        while sought.many > 0 loop
            chosen := null;
            update @.idle set works = '{}' where store = (
                select i.store from @.idle i where sought.work = any (i.works) and i.store <> ringer
                order by random() limit 1 for update skip locked
            ) returning store into chosen;
            exit when chosen is null;
            if pg_try_advisory_xact_lock(chosen) then
                delete from @.idle where store = chosen;
            else
                perform pg_notify(channel || '.' || chosen, sought.work::text);
                sought.many := sought.many - 1;
            end if;
        end loop;
    end loop;
end
$$;
"""

_OFFER = """
create function @.offer_1(number bigint, offered bigint[]) returns void
language plpgsql as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    insert into @.idle values (number, offered) on conflict (store) do update set works = excluded.works;
end
$$;
"""

MIGRATIONS = ((_TABLES, _INSERT, _REPLACE, _DELETE, _RING, _OFFER),)
"""Step n takes a schema from n to n + 1. Never edited once released; what older programs call stays."""
