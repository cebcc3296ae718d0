"""Every store passes the same contract."""

import pytest

from coatcheck.store import Store
from coatcheck.testing.store_contract import CHECKS, Check
from tests.conftest import SEALED, STORES, TWINS


@pytest.mark.anyio
@pytest.mark.parametrize("store", [*STORES, *TWINS, *SEALED], indirect=True)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_x04_store(check: Check, store: Store) -> None:
    await check(store)
