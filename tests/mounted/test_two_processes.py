"""FastAPI behind two processes and one store: what needs sticky routing, and what does not."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from coatcheck.client import Client
from tests.crash.children import PATIENCE, Child
from tests.databases.fixtures import new_url
from tests.forked import fork
from tests.mounted.balancer import Balancer, StickyBalancer, balancing, taking_turns
from tests.processes import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

APP = "examples.fastapi_app:app"
STATE_KEY = "0" * 64


def serve(port: int, workers: int, environment: dict[str, str]) -> None:
    """Be `uvicorn examples.fastapi_app:app`."""
    os.environ.update(environment)
    uvicorn.run(APP, port=port, workers=workers, log_level="warning", timeout_graceful_shutdown=5)


Start = Callable[..., Awaitable[str]]


@pytest.fixture(params=["postgres"])
async def start(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Start]:
    """Start uvicorn with the application; all of a test share a store."""
    children: list[Child] = []
    given = {"COATCHECK_STORE": new_url(request.param, tmp_path), "COATCHECK_STATE_KEY": STATE_KEY}

    async def start(workers: int = 1, **more: str) -> str:
        port = free_port()
        children.append(Child(*await fork(serve, port, workers, {**given, **more}, stream=2)))
        await _answers(port)
        return f"http://127.0.0.1:{port}"

    yield start
    for child in children:
        await child.clean_up()


async def _answers(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)  # a process says nothing when it begins to listen
            else:
                writer.close()
                return


async def agree(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"approved": True})


def client(address: str, mode: str) -> Client:
    options: dict[str, Any] = {"mode": mode, "elicitation_callback": agree}
    return Client(f"{address}/tools/mcp", **options)


async def test_x22_clients_of_2026_need_no_sticky_routing(start: Start) -> None:
    balancer = Balancer([await start(), await start()], taking_turns(2))
    async with balancing(balancer) as address, client(address, "2026-07-28") as caller:
        shipped = await asyncio.gather(*(caller.call("ship", {"order": f"number {n}"}) for n in range(10)))
        assert [result.data for result in shipped] == [f"number {n} is on its way" for n in range(10)]
        assert (await caller.call("refund", {"order": "mine"})).data == "refunded"
        handle = await caller.start("refund", {"order": "cancelled"})
        await handle.cancel()
    by_process = Counter(number for _, number in balancer.served)
    assert abs(by_process[0] - by_process[1]) <= 1, "every request went to the other process than the one before"
    assert {number for method, number in balancer.served if method in ("tools/call", "POST")} == {0, 1}


async def test_x22_a_session_of_2025_works_where_its_requests_go_where_it_began(start: Start) -> None:
    balancer = StickyBalancer([await start(), await start()], taking_turns(2))
    async with balancing(balancer) as address, client(address, "2025-11-25") as caller:
        assert (await caller.call("ship", {"order": "mine"})).data == "mine is on its way"
        assert (await caller.call("refund", {"order": "mine"})).data == "refunded"
    assert len(balancer.sessions) >= 1


async def test_x22_a_session_of_2025_is_refused_by_a_process_that_does_not_have_it(start: Start) -> None:
    first, second = [f"{await start()}/tools/mcp" for _ in range(2)]
    accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with httpx2.AsyncClient(headers=accept, timeout=PATIENCE) as http:
        begun = await http.post(first, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info})
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        answers = [await http.post(url, json=asked, headers=session) for url in (first, second)]
    assert [answer.status_code for answer in answers] == [200, 404]


async def test_x22_without_sessions_2025_has_tasks_behind_any_balancer_but_is_asked_nothing(start: Start) -> None:
    balancer = Balancer([await start(STATELESS="1"), await start(STATELESS="1")], taking_turns(2))
    async with balancing(balancer) as address, client(address, "2025-11-25") as caller:
        assert (await caller.call("ship", {"order": "mine"})).data == "mine is on its way"


async def test_x22_uvicorns_own_workers_share_the_store(start: Start) -> None:
    address = await start(workers=2)
    async with client(address, "2026-07-28") as caller:
        shipped = await asyncio.gather(*(caller.call("ship", {"order": f"number {n}"}) for n in range(10)))
    assert {result.data for result in shipped} == {f"number {n} is on its way" for n in range(10)}
