"""The network of these tests fails as it is told to, and says so."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import suppress

import httpx2
import pytest

from tests.client_faults.gate import PATIENCE
from tests.client_faults.proxy import ANSWER, QUESTION, Cut, Proxy, proxying

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
REPLY = b'{"question": "elicitation/create", "rest": "' + b"." * 100 + b'"}'


class Upstream:
    """A server that answers everything alike, in full, not at all, or up to the question; it counts."""

    def __init__(self) -> None:
        self.heard = 0
        self.hears = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.length = len(REPLY)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.heard += 1
            self.hears.set()
            if self.length:
                writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(REPLY))
                writer.write(REPLY[: self.length])
                await writer.drain()
            if self.length < len(REPLY):
                await reader.read()
        self.hung_up.set()
        writer.close()


@pytest.fixture
async def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncGenerator[Proxy]:
    async with (
        await asyncio.start_server(upstream.serve, "127.0.0.1") as server,
        proxying(server.sockets[0].getsockname()[1]) as proxy,
    ):
        yield proxy


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        yield client


async def _up_to_a_reset(response: httpx2.Response) -> bytes:
    body = b""
    try:
        async for part in response.aiter_bytes():
            body += part
    except httpx2.ReadError:
        return body
    raise AssertionError(f"There was no reset after {body}")


async def test_it_passes_on_what_it_is_not_told_to_break(
    upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    for message in (CALL, CALL, {"jsonrpc": "2.0", "id": 1, "result": 2}):
        assert (await http.post(proxy.url, json=message)).content == REPLY
    assert (await http.get(proxy.url)).content == REPLY
    assert proxy.seen == {"tools/call": 2, ANSWER: 1, "GET": 1}
    assert upstream.heard == 4


@pytest.mark.parametrize(("cut", "heard"), [(Cut.BEFORE, 0), (Cut.UNANSWERED, 1), (Cut.MIDWAY, 1)])
async def test_it_resets_an_exchange_where_it_is_told_to_and_as_often(
    cut: Cut, heard: int, upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    fault = proxy.fault("tools/call", cut, times=2, passes=1)
    assert (await http.post(proxy.url, json=CALL)).content == REPLY
    for _ in range(2):
        with pytest.raises(httpx2.ReadError):
            await http.post(proxy.url, json=CALL)
    assert (fault.count, upstream.heard) == (2, 1 + 2 * heard)
    assert (await http.post(proxy.url, json=CALL)).content == REPLY
    assert fault.is_over


async def test_half_an_answer_is_half_an_answer(proxy: Proxy, http: httpx2.AsyncClient) -> None:
    proxy.fault("tools/call", Cut.MIDWAY)
    async with http.stream("POST", proxy.url, json=CALL) as response:
        assert response.status_code == 200
        body = await _up_to_a_reset(response)
    assert body == REPLY[: len(REPLY) // 2]


async def test_a_stream_can_be_cut_once_a_question_is_asked(
    upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    upstream.length = REPLY.index(b"rest")
    fault = proxy.fault("tools/call", Cut.AFTER, having=QUESTION)
    async with http.stream("POST", proxy.url, json=CALL) as response:
        body = await _up_to_a_reset(response)
    assert QUESTION in body
    assert fault.is_over


async def test_an_answer_that_has_not_what_it_should_is_left_alone(proxy: Proxy, http: httpx2.AsyncClient) -> None:
    fault = proxy.fault("tools/call", Cut.UNANSWERED, having=b"something else")
    assert (await http.post(proxy.url, json=CALL)).content == REPLY
    assert fault.count == 0


async def test_another_phase_is_left_alone(proxy: Proxy, http: httpx2.AsyncClient) -> None:
    fault = proxy.fault("tasks/get", Cut.BEFORE)
    assert (await http.post(proxy.url, json=CALL)).content == REPLY
    assert fault.count == 0


async def test_a_trap_holds_an_exchange_until_it_is_sprung(
    upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    trap = proxy.trap("tools/call", Cut.UNANSWERED)
    posting = asyncio.create_task(http.post(proxy.url, json=CALL))
    await trap.caught()
    assert upstream.heard == 1
    assert not posting.done()
    trap.spring()
    with pytest.raises(httpx2.ReadError):
        await posting


async def test_where_nobody_listens_connections_are_refused_and_then_not(
    proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    proxy.refuse()
    with pytest.raises(httpx2.ConnectError):
        await http.post(proxy.url, json=CALL)
    await proxy.listen()
    assert (await http.post(proxy.url, json=CALL)).content == REPLY


async def test_connections_can_be_turned_away_a_few_times(proxy: Proxy, http: httpx2.AsyncClient) -> None:
    proxy.turn_away(2)
    for _ in range(2):
        with pytest.raises((httpx2.ReadError, httpx2.WriteError)):
            await http.post(proxy.url, json=CALL)
    assert (await http.post(proxy.url, json=CALL)).content == REPLY
    assert proxy.turned_away == 2


async def test_all_that_is_open_can_be_cut(upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient) -> None:
    upstream.length = 0
    posting = asyncio.create_task(http.post(proxy.url, json=CALL))
    async with asyncio.timeout(PATIENCE):
        await upstream.hears.wait()
        assert proxy.cut_all() == 1
        with pytest.raises(httpx2.ReadError):
            await posting
        await upstream.hung_up.wait()


async def test_the_server_sees_that_its_client_has_hung_up(
    upstream: Upstream, proxy: Proxy, http: httpx2.AsyncClient
) -> None:
    upstream.length = 0
    posting = asyncio.create_task(http.post(proxy.url, json=CALL))
    async with asyncio.timeout(PATIENCE):
        await upstream.hears.wait()
        posting.cancel()
        await upstream.hung_up.wait()
