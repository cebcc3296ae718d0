-- Writes the next versions of tasks, and their new entries. Rows that somebody else is just writing are passed over, so
-- no batch ever waits for another. Such a one is tried again (2), unless it was a claim: then somebody else is just
-- claiming it (0), if it was not us, before the connection broke. Nothing is returned if all were written.
create function @.replace_each_1(
    tasks @.next_1[], repeats boolean[], sealed text, places bigint[], numbers bigint[], entries bytea[]
) returns smallint[]
language plpgsql as $$
declare
    written bigint[];
    followed @.next_1[];
begin
    with locked as materialized (
        select i.n, i.version, i.expires_at, i.is_waiting, i.mark, i.body, t.ctid as place
        from unnest(tasks) with ordinality i (
            id, version, scope, created_at, expires_at, is_waiting, is_begun, lease_until, mark, body, n
        )
        join @.task t on t.id = i.id and t.version = i.version - 1
        for no key update of t skip locked
    ), changed as (
        update @.task t set version = i.version, expires_at = i.expires_at, is_waiting = i.is_waiting,
            stamps = substr(int8send(i.mark) || t.stamps, 1, 32), sealed_by = sealed, body = i.body
        from locked i where t.ctid = i.place
        returning i.n
    )
    select array_agg(n) into written from changed;
    followed := array(select tasks[n] from unnest(written) n);
    perform @.follow_1(followed, (select count(*) from unnest(followed) i where i.is_begun));
    if cardinality(entries) > 0 then
        insert into @.entry (task_id, number, sealed_by, body)
        select tasks[e.place].id, e.number, sealed, e.body
        from unnest(places, numbers, entries) e (place, number, body) where e.place = any (written);
    end if;
    if cardinality(written) = cardinality(tasks) then
        return null;
    end if;
    return (
        select array_agg(
            (case
                when i.n = any (written) then 1
                when t.version = i.version - 1 then
                    case when t.is_waiting and i.lease_until is not null and not repeats[i.n] then 0 else 2 end
                when repeats[i.n] and position(int8send(i.mark) in t.stamps) > 0 then 1
                else 0
            end)::smallint order by i.n
        )
        from unnest(tasks) with ordinality i (
            id, version, scope, created_at, expires_at, is_waiting, is_begun, lease_until, mark, body, n
        )
        left join @.task t on t.id = i.id
    );
end
$$;
