"""What is looked at when a store is opened, and what is said of it: in one line, with what to do."""

import logging
from functools import partial

import pytest

from coatcheck import BadStoreURL, new_key, open_store
from coatcheck.errors import StoreUnavailable, StoreUnusable
from coatcheck.stores.postgres import schema
from coatcheck.stores.postgres.driver import Backoff
from coatcheck.testing.builders import a_task
from tests.databases.fixtures import the_postgres
from tests.processes import free_port
from tests.stores.postgres.helpers import ask, run, schema_of
from tests.stores.served.helpers import refusal

pytestmark = pytest.mark.anyio

RELATIONS = "select string_agg(oid || relname, ',' order by oid) from pg_class where relnamespace = $1::regnamespace"


# URLs


@pytest.mark.parametrize(
    "end",
    [
        "/postgres?schema=",
        "/postgres?schema=a-b",
        "/postgres?schema=1a",
        "/postgres?schema=pg_tasks",
        f"/postgres?schema={'a' * 41}",
        "/postgres?schema",
        "/postgres?colour=red",
        "/postgres?work_mem=much",
        "/postgres?sslmode=perhaps",
    ],
)
async def test_a_url_that_says_what_means_nothing_is_refused_without_its_password(end: str) -> None:
    address = f"postgresql://postgres:secret@127.0.0.1:{the_postgres().process.port}"
    said = await refusal(f"{address}{end}", BadStoreURL)
    assert "; use " in said or "; write them as " in said or "; mend the URL" in said


@pytest.mark.parametrize("password", ["my/secret", "my#secret", "my?secret=x", "9/secret"])
async def test_what_is_left_of_a_password_that_was_not_escaped_is_not_shown(password: str) -> None:
    said = await refusal(f"postgresql://ann:{password}@127.0.0.1/postgres", BadStoreURL)
    assert "write / ? # @ in a password as %2F %3F %23 %40" in said


@pytest.mark.parametrize("port", ["port", "99999"])
async def test_a_port_that_is_none_is_refused(port: str) -> None:
    said = await refusal(f"postgresql://ann:secret@127.0.0.1:{port}/postgres", BadStoreURL)
    assert said.endswith("; mend the URL.")


@pytest.mark.usefixtures("_only_told")
async def test_a_schema_may_have_the_longest_name_that_is_allowed(url: str, caplog: pytest.LogCaptureFixture) -> None:
    longest = url.replace(schema_of(url), schema_of(url).ljust(40, "x"))
    async with open_store(longest) as store:
        await store.insert(a_task())
    assert caplog.messages == [], "it hears of changes as any other does"


# What is kept there


async def test_a_schema_is_made_once_and_found_again(url: str) -> None:
    async with open_store(url) as store:
        task = await store.insert(a_task())
    made = await ask(url, RELATIONS, schema_of(url))
    async with open_store(url) as store:
        assert await store.get("a") == task
    assert await ask(url, RELATIONS, schema_of(url)) == made


async def test_a_schema_that_was_made_for_us_is_used(url: str) -> None:
    await run(url, f"create schema {schema_of(url)}")
    async with open_store(url) as store:
        assert await store.insert(a_task()) == a_task()


async def test_a_schema_with_tables_of_another_program_is_refused_and_left_alone(url: str) -> None:
    await run(url, f"create schema {schema_of(url)}; create table @.task (id text); insert into @.task values ('x')")
    before = await ask(url, RELATIONS, schema_of(url))
    assert "tables of another program and was left alone; name another schema" in await refusal(url, StoreUnusable)
    assert await ask(url, RELATIONS, schema_of(url)) == before
    assert await ask(url, "select count(*) from @.task") == 1


async def test_what_a_newer_version_made_is_refused_and_left_alone(url: str) -> None:
    async with open_store(url):
        pass
    await run(url, "insert into @.coatcheck_schema values (99)")
    said = await refusal(url, StoreUnusable, new_key())
    assert "newer coatcheck (schema 99, this one knows 2); upgrade coatcheck, or name another schema" in said
    assert await ask(url, "select count(*) from @.sealing") == 0


# The server


async def test_a_database_that_cannot_keep_every_text_is_refused(url: str) -> None:
    name = f"ascii_{schema_of(url)}"
    await run(url, f"create database {name} encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'")
    said = await refusal(url.replace("/postgres?", f"/{name}?"), StoreUnusable)
    assert said.endswith("its encoding is SQL_ASCII; create the database with encoding 'UTF8'.")
    await run(url, f"drop database {name}")


async def test_a_server_that_is_too_old_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_OLDEST_SERVER", 990000)
    assert "is older than PostgreSQL 13; upgrade the server." in await refusal(url, StoreUnusable)


async def test_a_database_that_is_not_there_is_named(url: str) -> None:
    said = await refusal(url.replace("/postgres?", "/nowhere?"), StoreUnavailable)
    assert said.endswith('database "nowhere" does not exist; create it, or name another one.')


async def test_where_nobody_listens_is_said_when_there_is_no_patience_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "Backoff", partial(Backoff, 0.1))
    place = f"127.0.0.1:{free_port()}/postgres"
    said = await refusal(f"postgresql://ann:secret@{place}", StoreUnavailable)
    assert said.startswith(f"PostgreSQL at {place}, schema coatcheck cannot be used just now: ")
    assert said.endswith("; check that it is up and can be reached.")


async def test_a_host_nobody_knows_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "coatcheck"):
        said = await refusal("postgresql://ann:secret@nowhere.invalid/postgres", StoreUnavailable)
    assert said.startswith("PostgreSQL at nowhere.invalid/postgres, schema coatcheck cannot be used just now: ")
    assert "secret" not in caplog.text
