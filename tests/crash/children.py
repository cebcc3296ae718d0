"""Processes of a test: started, listened to, signalled, and none left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""
_ROOT = Path(__file__).parents[2]


class Child:
    def __init__(self, process: Process) -> None:
        self._process, self.pid = process, process.pid
        self._said: list[str] = []

    async def lines(self) -> AsyncGenerator[str]:
        """Return what the process says, whole lines only, until it ends."""
        assert self._process.stdout
        while (line := await self._process.stdout.readline()).endswith(b"\n"):
            self._said.append(line.decode().strip())
            yield self._said[-1]

    async def says(self, word: str) -> str:
        """Wait until the process says `word`; return the rest of that line."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                async for line in self.lines():
                    said, _, rest = line.partition(" ")
                    if said == word:
                        return rest
        raise AssertionError(f"Process {self.pid} did not say {word!r}, only {self._said}")

    def tell(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self) -> int:
        """Wait for the process to end; return its exit code, or minus the signal that ended it."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.lines():
                pass
            return await self._process.wait()

    async def clean_up(self) -> None:
        """End the process and whatever it has started."""
        assert self._process.stdin
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.stdin.close()
        await self.ended()


class Children:
    def __init__(self) -> None:
        self._all: list[Child] = []

    async def start(self, program: str, *arguments: object) -> Child:
        command = (sys.executable, "-m", "tests.crash.programs", program, *map(str, arguments))
        child = Child(
            await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=_ROOT, start_new_session=True)
        )
        self._all.append(child)
        return child

    async def clean_up(self) -> None:
        for child in self._all:
            await child.clean_up()
