-- Tells everybody which tasks have changed; and for as many tasks of a tool as need workers, one store each that has idle
-- ones. A store whose lock can be had is gone. Nothing of this need survive a crash: nobody waits for the disk.
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
