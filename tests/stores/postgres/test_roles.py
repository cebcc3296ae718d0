"""Who may use a store: what a role needs, what it is told if it lacks that, and that passwords are never said."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from coatcheck import new_key, open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.lifecycle import Recorded
from coatcheck.store import EVERYONE, Query
from coatcheck.testing.builders import a_task, an_entry
from tests.databases.fixtures import the_postgres
from tests.processes import PATIENCE
from tests.stores.postgres.helpers import a_role, grant, name_of, run, schema_of, session
from tests.stores.served.helpers import CLAIMED, DONE, ids, keep, refusal

pytestmark = pytest.mark.anyio

RULES = ("host all {} 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust", "local all all trust")


async def works(url: str, key: str | None = None) -> None:
    """Use all there is of a store."""
    async with open_store(url, key=key) as store:
        await store.waiting(("slow",), limit=1, timeout=0.01)
        task = await keep(store, a_task(idempotency_key="k"), CLAIMED, Recorded(1, (an_entry(),)), DONE)
        assert await store.get("a", newer_than=4, timeout=0.01) == task
        assert list(await store.journal("a")) == [an_entry()]
        assert ids(await store.list(Query(owner=EVERYONE))) == ["a"]
        assert await store.delete(task)


async def test_a_role_that_may_not_make_a_schema_is_told_what_an_administrator_has_to_run(url: str) -> None:
    async with a_role(url) as anns:
        said = await refusal(anns, StoreUnavailable)
        assert f"does not let ann_{schema_of(url)} make what is needed; have an administrator run: " in said
        await run(url, said.split("run: ")[1])
        await works(anns)


async def test_a_role_can_use_what_somebody_else_has_made(url: str) -> None:
    async with open_store(url), a_role(url) as anns:
        said = await refusal(anns, StoreUnavailable)
        wanted = "grant the role usage of the schema, all on its tables and execute on its functions."
        assert said.endswith(f"; {wanted}")
        await grant(anns)
        await works(anns)
        await works(anns, new_key())


async def test_a_right_that_is_taken_away_is_an_error_that_says_so(url: str) -> None:
    async with open_store(url), a_role(url) as anns:
        await grant(anns)
        async with open_store(anns) as store:
            await run(url, f"revoke insert on @.task from {name_of(anns)}")
            with pytest.raises(StoreUnavailable, match="permission denied for table task; grant the role"):
                await store.insert(a_task())
            assert await store.get("a") is None


@asynccontextmanager
async def guarded(url: str) -> AsyncGenerator[None]:
    """Have the server ask the role of this URL, and no other, for its password."""
    async with session(url.replace(f"//{name_of(url)}@", "//postgres@")) as boss:
        file = await boss.ask("select current_setting('hba_file')")
        before = rewritten(file, "\n".join(RULES).format(name_of(url)))
        await boss.run("select pg_reload_conf()")
        try:
            await until_asked_for_a_password(url)
            yield
        finally:
            rewritten(file, before)
            await boss.run("select pg_reload_conf()")


def rewritten(file: str, text: str) -> str:
    """Write a file and return what was in it."""
    before = Path(file).read_text()
    Path(file).write_text(text)
    return before


async def until_asked_for_a_password(url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(asyncpg.InvalidPasswordError):
                async with session(url.replace("@", ":wrong@")):
                    continue
            return


async def test_a_wrong_password_is_refused_at_once_and_not_told(url: str) -> None:
    place = the_postgres().address.partition("@")[2]
    async with a_role(url, "password 's3cret right'") as anns, guarded(anns):
        name, schema = name_of(anns), schema_of(url)
        for login in (f"{name}:secret@", f"{name}:secret%2F%40@"):
            said = await refusal(f"postgresql://{login}{place}?schema={schema}", StoreUnavailable)
            assert said.startswith(f"PostgreSQL at {place}, schema {schema} does not let us in: ")
            assert said.endswith("; check user and password in the URL.")
        await refusal(f"postgresql://{name}@{place}?schema={schema}&password=secret", StoreUnavailable)
        await run(url, f"create schema {schema} authorization {name}")
        for right in (f"{name}:s3cret%20right@{place}?", f"{name}@{place}?password=s3cret%20right&"):
            await works(f"postgresql://{right}schema={schema}")
