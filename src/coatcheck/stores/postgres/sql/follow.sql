-- Has the rows of begun tasks follow those of the tasks that were written; `begun` says how many of these are.
create function @.follow_1(tasks @.next_1[], begun bigint) returns void
language plpgsql as $$
begin
    if begun < cardinality(tasks) then
        delete from @.begun b using unnest(tasks) i cross join lateral (
            -- Apart, so that rows are looked up one by one, though the plan may be from when there were none.
            select o.ctid as place from @.begun o where o.scope = i.scope and o.id = i.id offset 0
        ) ended
        where b.ctid = ended.place and not i.is_begun;
    end if;
    if begun > 0 then
        insert into @.begun (id, scope, created_at, lease_until)
        select i.id, i.scope, i.created_at, i.lease_until from unnest(tasks) i where i.is_begun
        on conflict (scope, id) do update set lease_until = excluded.lease_until;
    end if;
end
$$;
