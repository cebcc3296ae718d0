"""Shared by the tests of the Redis store: which kind of server it is on, and one of its own."""

from collections.abc import Generator

import pytest

from tests.databases.redis import Redis


@pytest.fixture
def kind_of_store() -> str:
    return "redis"


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Generator[Redis]:
    """One that may be told to behave badly; a Valkey, if that is its parameter."""
    server = Redis(is_valkey=getattr(request, "param", "redis") == "valkey")
    yield server
    server.close()
