"""Many ask at once, for much or for little: each gets an answer of its own."""

import asyncio

import pytest
from msgspec.structs import replace

from coatcheck import open_store
from coatcheck.testing.builders import a_task
from tests.stores.served.helpers import soon

pytestmark = pytest.mark.anyio


async def test_thousands_at_once_all_get_their_own_answer(url: str) -> None:
    tasks = [replace(a_task(str(number)), status_message="x" * number) for number in range(3000)]
    async with open_store(url) as store:
        assert await asyncio.gather(*map(store.insert, tasks)) == tasks
        assert await asyncio.gather(*(store.get(task.id) for task in tasks)) == tasks


async def test_what_is_large_goes_with_what_is_small(url: str) -> None:
    large = [replace(a_task(f"large{number}"), status_message="x" * 3_000_000) for number in range(3)]
    before, after = ([a_task(f"{name}{number}") for number in range(20)] for name in "ab")
    tasks = [*before, *large, *after]
    async with open_store(url) as store:
        assert await soon(asyncio.gather(*map(store.insert, tasks))) == tasks
        assert await soon(asyncio.gather(*(store.get(task.id) for task in tasks))) == tasks
