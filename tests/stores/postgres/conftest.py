"""Shared by the tests of the PostgreSQL store: which kind of server it is on, and one of its own."""

from collections.abc import Generator

import pytest

from tests.databases.postgres import Postgres


@pytest.fixture
def kind_of_store() -> str:
    return "postgres"


@pytest.fixture(scope="module")
def own_server() -> Generator[Postgres]:
    """One that may be killed and started again."""
    server = Postgres()
    yield server
    server.close()
