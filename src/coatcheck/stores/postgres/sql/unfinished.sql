-- Counts the tasks of an owner that have not ended, up to `most`; null: all.
create function @.unfinished_1(whose bigint, most bigint) returns bigint
language plpgsql stable as $$
begin
    if most < 0 then
        most := 0;
    end if;
    return (
        select count(*) from (
            (select 1 from @.task t where t.scope = whose and t.is_waiting limit most)
            union all (select 1 from @.begun b where b.scope = whose limit most)
        ) counted
    );
end
$$;
