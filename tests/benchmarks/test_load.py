"""The load generator against its own stub, and its parts alone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.load import __main__ as command_line
from benchmarks.load.channel import Channel, Response
from benchmarks.load.meter import Meter, cpu_seconds, percentiles
from benchmarks.load.options import parse
from benchmarks.load.session import Address, RpcError, Session, messages, result_of, sessions
from benchmarks.load.stub import Stub
from benchmarks.load.trips import hammer, shared_out


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a stub that runs in a thread."""
    loop, ready, port = asyncio.new_event_loop(), threading.Event(), list[int]()

    async def serve() -> None:
        server = await loop.create_server(Stub, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        await server.serve_forever()

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    assert ready.wait(5)
    yield f"http://127.0.0.1:{port[0]}/mcp"
    loop.call_soon_threadsafe(task.cancel)
    thread.join(5)
    loop.close()


class Wire(asyncio.Transport):
    """Takes what is sent; a test plays the other end."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.sent += bytes(data)


def _received(data: bytes, step: int) -> Response | None:
    """Feed an answer to a channel in pieces and return what it made of it."""

    async def feed() -> Response | None:
        channel, wire = Channel(), Wire()
        channel.connection_made(wire)
        answer = asyncio.create_task(channel.exchange(b"request"))
        await asyncio.sleep(0)
        assert wire.sent == b"request"
        for at in range(0, len(data), step):
            channel.data_received(data[at : at + step])
        await asyncio.sleep(0)
        if answer.done():
            return answer.result()
        answer.cancel()
        return None

    return asyncio.run(feed())


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_body_of_known_length(step: int) -> None:
    found = _received(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", step)
    assert found
    assert (found.status, found.body) == (200, b"hello")


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_body_in_chunks(step: int) -> None:
    data = b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n"
    found = _received(data, step)
    assert found
    assert (found.status, found.body) == (400, b"abcde")


def test_half_a_body_is_no_answer() -> None:
    assert _received(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 3) is None


def test_a_connection_that_is_closed_is_no_answer() -> None:
    async def lose() -> None:
        channel = Channel()
        channel.connection_made(Wire())
        answer = asyncio.create_task(channel.exchange(b"request"))
        await asyncio.sleep(0)
        channel.connection_lost(None)
        await answer

    with pytest.raises(ConnectionResetError):
        asyncio.run(lose())


def test_the_messages_of_an_event_stream() -> None:
    body = b'event: message\r\ndata: {"id": 1}\r\n\r\n: ping\r\n\r\ndata: {"id": 2}\r\n\r\n'
    found = messages(Response(200, b"content-type: text/event-stream", body))
    assert [message["id"] for message in found] == [1, 2]


def test_a_refusal_is_raised() -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}'
    with pytest.raises(RpcError) as caught:
        result_of(1, Response(200, b"", answer))
    assert caught.value.code == -32602


def test_an_answer_to_something_else_is_none() -> None:
    with pytest.raises(RpcError, match="no answer"):
        result_of(2, Response(200, b"", b'{"jsonrpc":"2.0","id":1,"result":{}}'))


def test_percentiles() -> None:
    found = percentiles([number / 1000 for number in range(1, 201)], "x")
    assert found == pytest.approx({"x_p50_ms": 101.0, "x_p99_ms": 199.0, "x_max_ms": 200.0})
    assert percentiles([], "x") == {}


def test_the_processor_time_of_a_process_is_its_own() -> None:
    before = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - before[1] < 0.02:
        pass
    assert cpu_seconds(os.getpid()) - before[0] == pytest.approx(time.process_time() - before[1], abs=0.01)


def test_a_meter_without_a_process_knows_the_clock_only() -> None:
    with Meter([]) as meter:
        pass
    assert set(meter.per(3)) == {"operations", "seconds", "client_cpu"}


def test_everybody_works_at_least_once_and_items_keep_their_order(url: str) -> None:
    async def get(session: Session) -> str:
        return (await session.get("working"))["status"]

    async def echo(session: Session, number: int) -> int:
        await session.get("completed")
        return number

    async def run() -> None:
        async with sessions(Address.of(url), 3) as clients:
            assert await hammer(clients, 0.0, get) == ["working"] * 3
            assert await shared_out(clients, range(10), echo) == list(range(10))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "metric"),
    [
        ("call --duration 0.05 --warmup 0", "requests_per_s"),
        ("roundtrip -n 20 --warmup 1", "trip_p50_ms"),
        ("throughput --duration 0.05 --warmup 0 --clients 4", "tasks_per_s"),
        ("poll --duration 0.05 --warmup 0 --fill 10", "requests_per_s"),
        ("hold -n 50 --settle 0 --watch 0.05 --steps 5 --gauge-tool running", "creates_per_s"),
        ("hold -n 5 --tool noop --settle 0 --watch 0.05 --steps 5 --cancels", "creates_per_s"),
        ("cancel --tool noop -n 2 --settle 0", "ack_p50_ms"),
    ],
)
def test_a_measurement(url: str, options: str, metric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.jsonl"
    command_line.main([*options.split(), "--url", url, "--repeat", "2", "--json", str(file), "--pid", str(os.getpid())])
    record = json.loads(file.read_text())
    assert len(record["runs"]) == 2
    assert record["summary"][metric]["median"] > 0
    assert metric in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_is_started_and_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{_free_port()}/mcp"
    command_line.main(["start", "--url", url, "--", sys.executable, "-m", "benchmarks.load", "stub", "--url", url])
    assert "first_answer_ms" in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_that_ends_is_not_waited_for() -> None:
    url = f"http://127.0.0.1:{_free_port()}/mcp"
    with pytest.raises(SystemExit, match="ended with 3"):
        command_line.main(["start", "--url", url, "--", sys.executable, "-c", "raise SystemExit(3)"])


def test_disturbed_runs_are_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = iter([0.9, 0.1, 0.8, 0.0])

    async def measure(address: Address) -> dict[str, float]:
        return {"foreign_cpu": next(foreign)}

    monkeypatch.setitem(command_line.MEASURES, "call", measure)
    options = parse(["call", "--repeat", "2", "--attempts", "6"])
    runs, left_out = command_line.repeat(options, Address.of(options.url))
    assert [run["foreign_cpu"] for run in runs] == [0.0, 0.1]
    assert left_out == 2
