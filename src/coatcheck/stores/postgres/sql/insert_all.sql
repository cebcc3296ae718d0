-- Keeps new tasks, or none of them.
create function @.insert_all_1(tasks @.new_1[], begun bigint, sealed text) returns void
language plpgsql as $$
begin
    insert into @.task (
        id, owner, version, scope, work, created_at, expires_at, is_waiting, once, stamps, sealed_by, body
    )
    select id, owner, version, scope, work, created_at, expires_at, is_waiting, once, '', sealed, body
    from unnest(tasks);
    if begun > 0 then
        insert into @.begun (id, scope, created_at, lease_until)
        select id, scope, created_at, lease_until from unnest(tasks) where is_begun;
    end if;
end
$$;
