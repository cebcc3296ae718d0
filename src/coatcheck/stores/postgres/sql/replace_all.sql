-- Writes the next versions of tasks, and says whether it was all of them. Waits for rows that somebody else is just
-- writing, but not for long.
create function @.replace_all_1(tasks @.next_1[], begun bigint, sealed text) returns boolean
language plpgsql set lock_timeout = '50ms' as $$
declare
    written bigint;
    is_whole boolean;
begin
    update @.task t set version = i.version, expires_at = i.expires_at, is_waiting = i.is_waiting,
        stamps = substr(int8send(i.mark) || t.stamps, 1, 32), sealed_by = sealed, body = i.body
    from unnest(tasks) i where t.id = i.id and t.version = i.version - 1;
    get diagnostics written = row_count;
    is_whole := written = cardinality(tasks);
    if not is_whole then
        tasks := array(
            select i::@.next_1 from unnest(tasks) i join @.task t on t.id = i.id
            where t.version = i.version and substr(t.stamps, 1, 8) = int8send(i.mark)
        );
        select count(*) into begun from unnest(tasks) i where i.is_begun;
    end if;
    perform @.follow_1(tasks, begun);
    return is_whole;
end
$$;
