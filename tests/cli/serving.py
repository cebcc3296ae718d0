"""`coatcheck serve` as a process: started, listened to, signalled, and never left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests import forked
from tests.forked import Forked, call_coatcheck, fork

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "coatcheck", "serve")
APP = "tests.cli.app:server"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment in which nothing of this machine's own is found or left."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("COATCHECK_")}
    return known | {"XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "200", "NO_COLOR": "1"} | more


def run(folder: Path, *arguments: str, within: float = PATIENCE, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line that ends by itself."""
    given = (arguments, folder, environment(folder, **more))
    return forked.run(call_coatcheck, *given, folder=folder, within=within)


class Served:
    """A server process that serves."""

    def __init__(self, process: Forked, says: asyncio.StreamReader, *, is_json: bool = False) -> None:
        """`is_json`: it says where it is in a record, not in a banner."""
        self._process, self.pid, self._is_json = process, process.pid, is_json
        self._says = says
        self.said: list[str] = []
        self.url = ""
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def says(self, start: str, having: str = "") -> str:
        """Wait for a line that begins with `start`; return the rest of it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.said:
                    if line.startswith(start) and having in line:
                        return line.removeprefix(start).strip()
                assert not self._reading.done(), f"It ended, and never said {start!r}, only {self.said}"
                self._news.clear()
                await self._news.wait()

    async def serves(self) -> None:
        """Wait until it answers at the endpoint it names."""
        if self._is_json:
            self.url = re.findall(r'"endpoint":"([^"]+)"', await self.says('{"at":', having='"endpoint"'))[0]
        else:
            self.url = await self.says("  endpoint ")
        address = urlsplit(self.url)
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert await reader.readline(), self.said
            writer.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.signal(number)

    async def ended(self, within: float = PATIENCE) -> int:
        """Wait for the end; return the exit code, or minus the signal that ended it."""
        async with asyncio.timeout(within):
            await self._reading
        return await self._process.ended(within)

    async def clean_up(self) -> None:
        await self._process.clean_up(PATIENCE)
        await self.ended()

    async def _read(self) -> None:
        async for line in self._says:
            self.said.append(line.decode().rstrip())
            self._news.set()
        self._news.set()


class Serving:
    """Starts servers in a folder, on one store unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, f"sqlite:///{folder}/tasks.db"
        self._all: list[Served] = []

    async def __call__(self, *arguments: str, target: str = APP, store: str | None = None, **more: str) -> Served:
        """Start a server at a free port and wait until it serves; `store=""` names none."""
        where = ("--http", "127.0.0.1:0", *(("--store", self.store if store is None else store) if store != "" else ()))
        command = ("serve", target, *where, *arguments)
        process, says = await fork(call_coatcheck, command, ROOT, environment(self.folder, **more), stream=2)
        served = Served(process, says, is_json="json" in arguments)
        self._all.append(served)
        await served.serves()
        return served

    async def clean_up(self) -> None:
        for served in self._all:
            await served.clean_up()
