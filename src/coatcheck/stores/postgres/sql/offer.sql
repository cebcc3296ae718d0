-- Notes what the idle workers of a store would do.
create function @.offer_1(number bigint, offered bigint[]) returns void
language plpgsql as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    insert into @.idle values (number, offered) on conflict (store) do update set works = excluded.works;
end
$$;
