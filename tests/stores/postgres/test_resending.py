"""A connection breaks while PostgreSQL is still at work: what was asked for is done, once."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.testing.builders import a_task
from tests.databases.fixtures import the_postgres
from tests.stores.postgres.helpers import LOGGED
from tests.stores.postgres.insider import closed_gate
from tests.stores.served.helpers import soon, through, until
from tests.stores.served.operations import HELD
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio


async def test_a_claim_that_is_repeated_while_it_is_still_under_way_is_not_taken_for_a_rivals(
    proxy: Proxy, url: str
) -> None:
    async with open_store(through(proxy.port, url) + LOGGED) as store:
        await store.insert(a_task("kept"))
        async with closed_gate(url) as gate:
            claiming = asyncio.ensure_future(store.replace(HELD))
            await gate.until_somebody_waits()
            tries = the_postgres().process.words().count("replace_each_1")
            proxy.cut()
            await until(lambda: claiming.done() or the_postgres().process.words().count("replace_each_1") > tries + 2)
        assert await soon(claiming) is True
        assert await store.get("kept") == HELD
