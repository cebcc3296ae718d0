-- Once a task is begun, nothing that changes is in an index here: its next versions stay on the same page.
create table @.task (
    id text collate "C" primary key, owner text, version bigint not null, scope bigint not null,
    work bigint not null, created_at bigint not null, expires_at bigint, is_waiting boolean not null, once bytea,
    stamps bytea not null, sealed_by text, body bytea not null
) with (
    fillfactor = 44, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);
create index task_owner on @.task (scope, is_waiting, created_at, id);
create index task_created on @.task (created_at, id) where not is_waiting;
create index task_waiting on @.task (work, created_at, id) where is_waiting;
create index task_expiry on @.task (expires_at) where expires_at is not null;
create unique index task_once on @.task (once) where once is not null;

-- One narrow row for each task that is begun and has not ended: held if it has a lease, else parked.
create table @.begun (
    id text collate "C" not null, scope bigint not null, created_at bigint not null, lease_until bigint,
    primary key (scope, id)
) with (fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
create index begun_held on @.begun (created_at, id) where lease_until is not null;
create index begun_lease on @.begun (lease_until) where lease_until is not null;

create table @.entry (
    task_id text collate "C" not null, number bigint not null, sealed_by text, body bytea not null,
    primary key (task_id, number)
) with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);

create table @.sealing (key_id text primary key);

create unlogged table @.idle (store bigint primary key, works bigint[] not null) with (
    fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0
);

-- Tasks as they come to be written: the driver is quicker with one array of rows than with an array for each column.
create type @.new_1 as (
    id text, owner text, version bigint, scope bigint, work bigint, created_at bigint, expires_at bigint,
    is_waiting boolean, is_begun boolean, lease_until bigint, once bytea, body bytea
);
create type @.next_1 as (
    id text, version bigint, scope bigint, created_at bigint, expires_at bigint, is_waiting boolean, is_begun boolean,
    lease_until bigint, mark bigint, body bytea
);
