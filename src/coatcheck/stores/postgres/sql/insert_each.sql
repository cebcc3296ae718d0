-- Keeps those new tasks whose owner has room for them. Those that were not written are answered with what stands in
-- their way: the task kept under their key or id, or too many.
create function @.insert_each_1(tasks @.new_1[], rooms bigint[], sealed text, locks bigint[])
returns table (n bigint, unfinished bigint, kept_id text, kept_owner text, kept_body bytea)
language plpgsql as $$
declare
    written text[];
begin
    perform pg_advisory_xact_lock(k) from unnest(locks) k;
    with made as (
        insert into @.task as t (
            id, owner, version, scope, work, created_at, expires_at, is_waiting, once, stamps, sealed_by, body
        )
        select i.id, i.owner, i.version, i.scope, i.work, i.created_at, i.expires_at, i.is_waiting, i.once, '',
            sealed, i.body
        from unnest(tasks, rooms) i (
            id, owner, version, scope, work, created_at, expires_at, is_waiting, is_begun, lease_until, once, body,
            room
        )
        where i.room is null or i.room > @.unfinished_1(i.scope, i.room)
        on conflict do nothing returning t.id
    )
    select array_agg(made.id) into written from made;
    insert into @.begun (id, scope, created_at, lease_until)
    select i.id, i.scope, i.created_at, i.lease_until from unnest(tasks) i where i.is_begun and i.id = any (written);
    if cardinality(written) = cardinality(tasks) then
        return;
    end if;
    return query
    select i.n, @.unfinished_1(i.scope, null), k.id, k.owner, k.body
    from unnest(tasks) with ordinality i (
        id, owner, version, scope, work, created_at, expires_at, is_waiting, is_begun, lease_until, once, body, n
    )
    left join lateral (
        (select t.id, t.owner, t.body from @.task t where t.once = i.once)
        union all (select t.id, t.owner, t.body from @.task t where t.id = i.id) limit 1
    ) k on true
    where written is null or i.id <> all (written);
end
$$;
