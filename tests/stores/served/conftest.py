"""Shared by the tests of what is the same for all stores on a database server: every kind of server in turn."""

import pytest

KINDS = ("redis", "valkey", "postgres")


@pytest.fixture(params=KINDS, scope="module")
def kind_of_store(request: pytest.FixtureRequest) -> str:
    return request.param
