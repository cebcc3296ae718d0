"""Processes of a test: started, listened to, signalled, and none left behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import suppress

import psutil

from tests.crash.programs import run
from tests.forked import Forked, fork

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""


class Child:
    def __init__(self, process: Forked, says: asyncio.StreamReader) -> None:
        self._process, self._says, self.pid = process, says, process.pid
        self._said: list[str] = []

    async def lines(self) -> AsyncGenerator[str]:
        """Return what the process says, whole lines only, until it ends."""
        while (line := await self._says.readline()).endswith(b"\n"):
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

    async def stands_still(self) -> None:
        """Wait until the process has been stopped: one that is continued before that is stopped for good."""
        async with asyncio.timeout(PATIENCE):
            while psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110, as no event tells us
                await asyncio.sleep(0.002)

    def tell(self, line: str) -> None:
        self._process.tell(line)

    def signal(self, number: signal.Signals) -> None:
        self._process.signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self) -> int:
        """Wait for the process to end; return its exit code, or minus the signal that ended it."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.lines():
                pass
        return await self._process.ended(PATIENCE)

    async def clean_up(self) -> None:
        """End the process and whatever it has started."""
        await self._process.clean_up(PATIENCE)


class Children:
    def __init__(self) -> None:
        self._all: list[Child] = []

    async def start(self, program: str, *arguments: object) -> Child:
        child = Child(*await fork(run, program, *map(str, arguments), stream=1))
        self._all.append(child)
        return child

    async def clean_up(self) -> None:
        for child in self._all:
            await child.clean_up()
