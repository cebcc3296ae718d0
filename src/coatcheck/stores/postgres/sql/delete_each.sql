-- Forgets tasks of these versions, and their entries; what is answered is as for replacing.
create function @.delete_each_1(ids text[], versions bigint[], repeats boolean[]) returns smallint[]
language plpgsql as $$
declare
    written bigint[];
begin
    with locked as materialized (
        select i.n, t.ctid as place
        from unnest(ids, versions) with ordinality i (id, version, n)
        join @.task t on t.id = i.id and t.version = i.version
        for update of t skip locked
    ), gone as (
        delete from @.task t using locked i where t.ctid = i.place returning i.n, t.id, t.scope
    ), ended as (
        delete from @.begun b using gone cross join lateral (
            select o.ctid as place from @.begun o where o.scope = gone.scope and o.id = gone.id offset 0
        ) begun
        where b.ctid = begun.place
    ), forgotten as (
        delete from @.entry e using gone where e.task_id = gone.id
    )
    select array_agg(n) into written from gone;
    if cardinality(written) = cardinality(ids) then
        return null;
    end if;
    return (
        select array_agg(
            (case
                when i.n = any (written) or (repeats[i.n] and t.id is null) then 1
                when t.version = i.version then 2
                else 0
            end)::smallint order by i.n
        )
        from unnest(ids, versions) with ordinality i (id, version, n) left join @.task t on t.id = i.id
    );
end
$$;
