"""Peers that send as slowly as they can: others are served meanwhile, and it has an end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing, suppress

import pytest

from tests.security.callers import PATIENCE, Modern
from tests.security.served import Served

pytestmark = pytest.mark.slow

HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"
PARTS = {
    "nothing": b"",
    "half a line": b"POST /m",
    "half of the headers": HEAD,
    "half a body": HEAD + b"Mcp-Protocol-Version: 2026-07-28\r\nContent-Length: 1000\r\n\r\n{",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n100\r\n{",
}
LINES = 100
"""Of each."""
LATE = b"The request took too long to arrive; send it again, at once."


class Trickle:
    """A body that comes byte by byte."""

    def __init__(self, line: socket.socket) -> None:
        self.said = b""
        self._line = line
        self.thread = threading.Thread(target=self._send)
        self.thread.start()

    def _send(self) -> None:
        self._line.sendall(PARTS["half a body"])
        self._line.settimeout(0.2)
        while not self.said:
            self._line.sendall(b" ")
            with suppress(TimeoutError):
                self.said = self._line.recv(65536)


@pytest.fixture(scope="module")
def trickle(anyones: Served) -> Generator[Trickle]:
    with socket.create_connection(("127.0.0.1", anyones.port), PATIENCE) as line:
        trickle = Trickle(line)
        yield trickle
        trickle.thread.join(PATIENCE)


@pytest.fixture(scope="module")
def slow(anyones: Served, trickle: Trickle) -> Generator[dict[str, list[socket.socket]]]:
    """Connections whose requests do not go on."""
    with ExitStack() as stack:
        lines: dict[str, list[socket.socket]] = {}
        for name, part in PARTS.items():
            for _ in range(LINES):
                line = stack.enter_context(socket.create_connection(("127.0.0.1", anyones.port), PATIENCE))
                line.sendall(part)
                lines.setdefault(name, []).append(line)
        yield lines


def test_others_are_served_meanwhile(anyones: Served, slow: dict[str, list[socket.socket]]) -> None:
    with closing(Modern(anyones.url)) as caller:
        for number in range(20):
            assert caller.call("keep", secret=str(number)).status == 200
    assert sum(map(len, slow.values())) == LINES * len(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_all_of_them_are_sent_away_without_being_waited_for_any_longer(
    slow: dict[str, list[socket.socket]], name: str
) -> None:
    for line in slow[name]:
        said = b""
        while part := line.recv(65536):
            said += part
        if name == "nothing":
            assert said == b""
        else:
            assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert said.endswith(LATE)


def test_a_byte_now_and_then_gains_next_to_nothing(trickle: Trickle) -> None:
    trickle.thread.join(PATIENCE)
    assert trickle.said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
