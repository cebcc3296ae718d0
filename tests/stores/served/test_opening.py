"""Who may open a store that is sealed, and what is left of one that was closed."""

import pytest

from coatcheck import KeyRefused, new_key, open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.lifecycle import Recorded, advance
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.served.helpers import CLAIMED, keep, refusal

pytestmark = pytest.mark.anyio


async def test_a_missing_key_is_refused_for_as_long_as_something_is_sealed_with_it(url: str) -> None:
    old, new = new_key(), new_key()
    async with open_store(url, key=old) as store:
        await keep(store, a_task(), CLAIMED, Recorded(1, (an_entry(),)))
        await store.insert(a_task("b"))
    for key in (None, new):
        assert "is not among the keys given; set COATCHECK_KEY to it" in await refusal(url, KeyRefused, key)
    async with open_store(url, key=f"{new},{old}") as store:
        kept = await store.get("a")
        assert kept
        assert await store.replace(advance(kept, Recorded(1, (an_entry(2),)), NOW), (an_entry(2),))
        assert list(await store.journal("a")) == [an_entry(), an_entry(2)]
        assert await store.delete(a_task("b"))
    await refusal(url, KeyRefused, new)  # the first entry of the journal is older than the rest
    async with open_store(url, key=f"{new},{old}") as store:
        kept = await store.get("a")
        assert kept
        assert await store.delete(kept)
        await store.insert(a_task("c"))
    async with open_store(url, key=new) as store:
        assert await store.get("c") == a_task("c")


async def test_an_open_store_notices_that_it_is_closed(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task())
    with pytest.raises(StoreUnavailable, match="closed; open it again"):
        await store.get("a")
