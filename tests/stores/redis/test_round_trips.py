"""One operation is one command, whatever Redis does to carry it out."""

import pytest

from coatcheck import open_store
from coatcheck.testing.builders import a_task
from tests.databases.fixtures import the_redis
from tests.stores.redis.helpers import commands_of_clients
from tests.stores.served.operations import OPERATIONS, Operation, prepare

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_an_operation_is_one_command(operation: Operation, url: str) -> None:
    async with open_store(url) as store:
        await prepare(store)
        await store.insert(a_task("waiting"))
        await store.get("kept", newer_than=9, timeout=0.001)  # so that it listens already
        with commands_of_clients(the_redis().address) as commands:
            await operation(store)
    assert len(commands) == 1, commands
