"""The servers under test, each a process of its own that says where it listens."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import msgspec

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""

COMMAND = ("coatcheck", "serve", "{server}", "--http", "127.0.0.1:0", "--store", "{store}")
"""The module to run and what it is told: the one place that knows how to serve a server by the command line."""
PROXY = ("coatcheck", "proxy", "--config", "{config}", "--http", "127.0.0.1:0", "--no-prefix", "--store", "{store}")
"""The same for the proxy, in front of one server whose names it keeps."""
EXAMPLE = "examples.conformance_server:server"
EVERYTHING = "tests.conformance.everything_server"

_ROOT = Path(__file__).parents[2]
_TRIES_PER_SECOND = 50
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@contextmanager
def serving(server: str, folder: Path, *options: str) -> Generator[str]:
    """Serve `module:server` by the command line, with a store in the folder; give the URL of its endpoint."""
    store = f"sqlite:///{folder}/tasks.db"
    with running(*(word.format(server=server, store=store) for word in COMMAND), *options) as url:
        yield url


@contextmanager
def proxying(upstream: str, folder: Path) -> Generator[str]:
    """Serve the proxy in front of the server at a URL, with a store in the folder; give the URL of its endpoint."""
    config = folder / "mcp.json"
    config.write_bytes(msgspec.json.encode({"mcpServers": {"everything": {"url": upstream}}}))
    with running(*(word.format(config=config, store=f"sqlite:///{folder}/proxy.db") for word in PROXY)) as url:
        yield url


@contextmanager
def running(module: str, *arguments: str) -> Generator[str]:
    """Run a module that serves, on a port it chooses; give the URL of its endpoint."""
    command = (sys.executable, "-u", "-m", module, *arguments)
    with subprocess.Popen(
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        said: list[str] = []
        port: Future[int] = Future()
        listener = Thread(target=_listen, args=(process, said, port))
        listener.start()
        try:
            yield _answering(process, port.result(PATIENCE))
        except BaseException as error:
            error.add_note(f"The server said: {''.join(said)}")
            raise
        finally:
            _end(process)
            listener.join()


def _listen(process: subprocess.Popen[str], said: list[str], port: Future[int]) -> None:
    """Read what the process says to its end, lest it wait for a reader; the first address is its own."""
    assert process.stdout
    for line in process.stdout:
        said.append(line)
        if not port.done() and (found := _ADDRESS.search(line)):
            port.set_result(int(found[1]))
    if not port.done():
        port.set_exception(AssertionError("The server ended without a word about where it listens"))


def _answering(process: subprocess.Popen[str], port: int) -> str:
    """Return the URL of the endpoint once somebody listens there: a port can be named before it is open."""
    for _ in range(PATIENCE * _TRIES_PER_SECOND):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), PATIENCE):
            return f"http://127.0.0.1:{port}/mcp"
        with suppress(subprocess.TimeoutExpired):
            process.wait(1 / _TRIES_PER_SECOND)
            break
    raise AssertionError(f"Nobody listens at port {port}; the server's exit code is {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
