"""A server as a process of its own, as an operator runs it, and what it says on stderr."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.fuzz.asgi import PATIENCE
from tests.fuzz.messages import request
from tests.fuzz.served import SECRET
from tests.fuzz.values import write

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "coatcheck", "serve", "tests.fuzz.served:server", "--log-level", "warning", "--store")
_ENDPOINT = re.compile(rb"http://127\.0\.0\.1:(\d+)/mcp")
_ROOM = 1 << 26


class Served:
    def __init__(self, process: Process, errors: Path) -> None:
        self.process, self._errors = process, errors

    def said(self) -> bytes:
        """Return what the process has written to stderr."""
        return self._errors.read_bytes()

    def megabytes(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def descriptors(self) -> int:
        return psutil.Process(self.process.pid).num_fds()

    async def port(self) -> int:
        """Wait until it listens; return where."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if found := _ENDPOINT.search(self.said()):
                    with suppress(ConnectionRefusedError):
                        _, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
                        writer.close()
                        return int(found[1])
                assert self.process.returncode is None, self.said()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.process.wait(), 0.05)


class Client:
    """A client on stdio: writes lines, and reads whatever comes, so that neither side waits for the other."""

    def __init__(self, served: Served, asked: Callable[..., dict[str, Any]] = request) -> None:
        """`asked` makes a request of a method, an id and parameters."""
        assert served.process.stdin
        assert served.process.stdout
        self._to, self._from = served.process.stdin, served.process.stdout
        self._request = asked
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self.questions: list[dict[str, Any]] = []
        """What the server asked."""
        self.faults: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def send(self, line: bytes) -> None:
        self._to.write(line + b"\n")
        await self._to.drain()

    async def ask(self, number: str, method: str, **params: Any) -> Any:
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self.send(write(self._request(method, number, **params)).encode())
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def leave(self) -> None:
        self._to.close()
        async with asyncio.timeout(PATIENCE):
            await self._reading

    async def _read(self) -> None:
        while line := await self._from.readline():
            said: Any = json.loads(line)
            if said.get("jsonrpc") != "2.0" or SECRET.encode() in line or b"Traceback" in line:
                self.faults.append(f"it said {line!r:.1000}")
            if said.get("error", {}).get("code") == -32603:
                self.faults.append(f"an internal error: {line!r:.1000}")
            if "method" in said and "id" in said:
                self.questions.append(said)
            elif waiting := self._answers.pop(str(said.get("id")), None):
                waiting.set_result(said)


@asynccontextmanager
async def a_process(folder: Path, *options: str) -> AsyncGenerator[Served]:
    """Serve with a store in `folder`; end it with SIGTERM."""
    errors = folder / "stderr.txt"
    with errors.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            f"sqlite:///{folder}/tasks.db",
            *options,
            cwd=ROOT,
            stdin=PIPE,
            stdout=PIPE,
            stderr=file,
            limit=_ROOM,
        )
    try:
        yield Served(process, errors)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            raise
