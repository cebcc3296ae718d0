"""What the tests of the PostgreSQL store see of a PostgreSQL, without the store's help."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tests.databases.fixtures import the_postgres
from tests.processes import PATIENCE

LOGGED = "&log_statement=all"
"""Added to a URL, it makes the server log the statements of that store."""
_STATEMENT = re.compile(r"LOG: {2}(?:statement|execute [^:]*): (.*(?:\n\t.*)*)")
_connect: Any = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def schema_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["schema"][0]


def name_of(url: str) -> str:
    return urlsplit(url).username or ""


class Session:
    """Anybody's connection. `@.` is the schema of the store."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection, self._schema = connection, schema

    async def ask(self, statement: str, *values: object) -> Any:
        """Return the first value of what a statement returns, if it does."""
        return await self._connection.fetchval(self._here(statement), *values)

    async def run(self, script: str) -> None:
        await self._connection.execute(self._here(script))

    async def until(self, statement: str, *values: object) -> None:
        """Wait until the statement returns something true."""
        async with asyncio.timeout(PATIENCE):
            while not await self.ask(statement, *values):
                pass

    def _here(self, statement: str) -> str:
        return statement.replace("@.", f'"{self._schema}".')


@asynccontextmanager
async def session(url: str) -> AsyncGenerator[Session]:
    connection = await _connect(url.split("?")[0], timeout=PATIENCE, command_timeout=PATIENCE)
    try:
        yield Session(connection, schema_of(url) if "schema=" in url else "")
    finally:
        await connection.close(timeout=PATIENCE)


async def ask(url: str, statement: str, *values: object) -> Any:
    async with session(url) as other:
        return await other.ask(statement, *values)


async def run(url: str, script: str) -> None:
    async with session(url) as other:
        await other.run(script)


@asynccontextmanager
async def a_role(url: str, options: str = "") -> AsyncGenerator[str]:
    """Make a role for a while, and return the URL for it."""
    name = f"ann_{schema_of(url)}"
    await run(url, f"create role {name} login {options}")
    try:
        yield url.replace("//postgres@", f"//{name}@")
    finally:
        await run(url, f"drop owned by {name} cascade; drop role {name}")


async def grant(url: str) -> None:
    """Give the role of this URL what it needs to use what is there."""
    schema, name = schema_of(url), name_of(url)
    await run(
        url.replace(f"//{name}@", "//postgres@"),
        f"grant usage on schema {schema} to {name}; grant all on all tables in schema {schema} to {name}",
    )


@contextmanager
def statements() -> Generator[list[str]]:
    """Collect what stores opened with LOGGED ask of the shared server meanwhile."""
    seen: list[str] = []
    words = the_postgres().process.words
    before = len(words())
    yield seen
    seen += _STATEMENT.findall(words()[before:])
