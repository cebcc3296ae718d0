"""Every client against every kind of tool, whatever it does, on every transport; each cell is seen on the wire."""

from __future__ import annotations

import asyncio

import pytest

from tests.matrix.conftest import Network
from tests.matrix.exchanges import EXCHANGES
from tests.matrix.peers import PATIENCE
from tests.matrix.table import CELLS, UNASKED, Cell

pytestmark = pytest.mark.anyio


def _parameters(cell: Cell) -> object:
    return pytest.param(cell, id=cell.name, marks=[pytest.mark.slow] if cell.transport == "stdio" else [])


@pytest.mark.parametrize("cell", [_parameters(cell) for cell in CELLS])
async def test_a_call_goes_the_way_its_client_and_its_tool_allow(cell: Cell, network: Network) -> None:
    peer = await network.peer(cell.client, cell.transport)
    twin = await network.peer(cell.client, cell.transport, is_twin=True)
    try:
        async with asyncio.timeout(2 * PATIENCE):
            await EXCHANGES[cell.way](cell, peer, twin)
        assert {heard.method for heard in peer.heard} <= UNASKED[cell.client.name]
    finally:
        if cell.outcome == "cancelled":  # what was not, after all, would be waited for in the end
            for either in (peer, twin):
                await either.call("release", label=cell.name)
