"""The schema: making sure it is ours, and bringing it up to date."""

from __future__ import annotations

import hashlib
from typing import Any

from coatcheck.errors import KeyRefused, StoreUnavailable, StoreUnusable
from coatcheck.stores.codec import Codec
from coatcheck.stores.postgres.connections import end
from coatcheck.stores.postgres.driver import (
    Backoff,
    Connection,
    connect,
    explain_refusal,
    is_forbidden,
    is_passing,
    is_unknown_place,
)
from coatcheck.stores.postgres.tables import MIGRATIONS
from coatcheck.stores.postgres.target import Target

_OLDEST_SERVER = 130000
_NEVER_RELEASED = 1
_LOOK = """
select current_setting('server_version_num')::int as server, current_setting('server_encoding') as encoding,
    current_user::text as role, to_regnamespace(quote_ident($1)) is not null as is_there,
    to_regclass(quote_ident($1) || '.coatcheck_schema') is not null as is_ours,
    (select count(*) from pg_class where relnamespace = to_regnamespace(quote_ident($1))) as relations
"""
_KEY_IDS = """
select key_id from @.sealing where key_id <> all ($1::text[]) and (
    exists (select from @.task where sealed_by = key_id) or exists (select from @.entry where sealed_by = key_id)
)
"""
_KNOWN = "select from @.sealing where key_id = $1"
_USE = "insert into @.sealing values ($1) on conflict do nothing"


def in_schema(statement: str, schema: str) -> str:
    return statement.replace("@.", f'"{schema}".')


async def prepare(target: Target, codec: Codec) -> None:
    """Make the schema, or check that it is ours and bring it up to date; and that we have the keys to read it.

    Raises:
        BadStoreURL: The driver or the server can make no sense of the URL.
        StoreUnavailable: The server cannot be reached, or does not let us.
        StoreUnusable: What is there is not ours, or newer than this library. It was not touched.
        KeyRefused: It holds tasks sealed with a key that was not given.
    """
    backoff = Backoff()
    while True:
        try:
            # There may be a pooler in between, so nothing is taken for granted yet.
            connection = await connect(target, is_pooled=True)
            try:
                await _prepare(connection, target)
                await _check_keys(connection, target, codec)
                return
            finally:
                await end(connection)
        except Exception as error:
            if not is_passing(error) or is_unknown_place(error) or backoff.is_over:
                raise explain_refusal(error, target) from error
        await backoff.pause()


async def _prepare(connection: Connection, target: Target) -> None:
    await connection.execute("begin isolation level read committed")
    if await _schema_of(connection, target) < len(MIGRATIONS):
        await connection.fetch("select pg_advisory_xact_lock($1)", _lock_of(target.schema))
        await _migrate(connection, target)
    await connection.execute("commit")


async def _schema_of(connection: Connection, target: Target) -> int:
    """Return the number of the schema, 0 if there is nothing yet."""
    (found,) = await connection.fetch(_LOOK, target.schema)
    _check_server(found, target)
    if not found["is_ours"]:
        if found["relations"]:
            raise StoreUnusable(
                f"{target.name} has tables of another program and was left alone; name another schema with ?schema=."
            )
        return 0
    rows = await connection.fetch(in_schema("select max(number) from @.coatcheck_schema", target.schema))
    number: int = rows[0][0] or 0
    if number > len(MIGRATIONS):
        raise StoreUnusable(
            f"{target.name} was written by a newer coatcheck (schema {number}, this one knows {len(MIGRATIONS)}); "
            "upgrade coatcheck, or name another schema with ?schema=."
        )
    if number == _NEVER_RELEASED:
        raise StoreUnusable(
            f"{target.name} was made by a coatcheck from before the first release, and cannot be read by this one; "
            "name another schema with ?schema=, or drop this one."
        )
    return number


def _check_server(found: Any, target: Target) -> None:
    if found["server"] < _OLDEST_SERVER:
        raise StoreUnusable(f"{target.name} is older than PostgreSQL 13; upgrade the server.")
    if found["encoding"] != "UTF8":
        raise StoreUnusable(
            f"{target.name} cannot keep every text, its encoding is {found['encoding']}; "
            "create the database with encoding 'UTF8'."
        )


async def _migrate(connection: Connection, target: Target) -> None:
    schema = await _schema_of(connection, target)  # others may have migrated while we waited for the lock
    (found,) = await connection.fetch(_LOOK, target.schema)
    try:
        if schema == 0:
            if not found["is_there"]:
                await connection.execute(f'create schema "{target.schema}"')
            await connection.execute(
                in_schema("create table @.coatcheck_schema (number integer primary key)", target.schema)
            )
        for number, step in enumerate(MIGRATIONS[schema:], start=schema + 1):
            for script in step:
                await connection.execute(in_schema(script, target.schema))
            await connection.execute(in_schema(f"insert into @.coatcheck_schema values ({number})", target.schema))
    except Exception as error:
        if is_forbidden(error):
            raise _forbidden(target, found["role"]) from error
        raise


def _forbidden(target: Target, role: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{target.name} does not let {role} make what is needed; have an administrator run:"
        f' create schema if not exists "{target.schema}"; grant usage, create on schema "{target.schema}" to "{role}";'
    )


async def _check_keys(connection: Connection, target: Target, codec: Codec) -> None:
    """Refuse at once what could not be read later; and say which key will be used from now on."""
    await connection.execute("begin; set local enable_seqscan = on")
    missing = await connection.fetch(in_schema(_KEY_IDS, target.schema), list(codec.key_ids))
    if missing:
        raise KeyRefused(
            f"{target.name} holds tasks sealed with key {', '.join(sorted(row[0] for row in missing))}, which is not"
            " among the keys given; set COATCHECK_KEY to it, or add it after the current key, separated by a comma."
        )
    if codec.key_id is not None:
        known, use = in_schema(_KNOWN, target.schema), in_schema(_USE, target.schema)
        if not await connection.fetch(known, codec.key_id):
            await connection.fetch(use, codec.key_id)
    await connection.execute("commit")


def _lock_of(schema: str) -> int:
    digest = hashlib.blake2b(schema.encode(), digest_size=8, person=b"coatcheck-schema").digest()
    return int.from_bytes(digest, "big", signed=True)
