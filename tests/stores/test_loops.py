"""One process, several event loops: what one of them waits for is no business of the others."""

import asyncio
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coatcheck import open_store
from coatcheck.testing.builders import a_task


@pytest.fixture
def _restless_threads() -> Generator[None]:
    """Switch between threads so often that whatever they share is met half done."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


async def wait_in_vain() -> int:
    """Return how many of many short waits came to their end."""
    async with open_store("memory://") as store:
        await store.insert(a_task())
        waits = [asyncio.create_task(store.get("a", newer_than=1, timeout=number / 50_000)) for number in range(5000)]
        done, late = await asyncio.wait(waits, timeout=10)
        for wait in late:
            wait.cancel()
        return len(done)


def on_a_loop_of_its_own(_: int) -> int:
    return asyncio.run(wait_in_vain())


@pytest.mark.slow
@pytest.mark.usefixtures("_restless_threads")
def test_waits_on_several_event_loops_all_end_in_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(on_a_loop_of_its_own, range(4)))
    assert ended == [5000] * 4
