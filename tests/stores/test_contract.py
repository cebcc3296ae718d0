"""Every store passes the same contract."""

import pytest

from coatcheck.store import Store
from coatcheck.testing.store_contract import CHECKS, Check


@pytest.mark.anyio
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_store(check: Check, store: Store) -> None:
    await check(store)
