"""The processes: servers and workers as an operator starts them, started again whenever they have ended."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.history import History
from tests.chaos.network import Network
from tests.chaos.terms import FOLDER_VARIABLE, beats_of
from tests.cli.serving import ROOT, Served, environment
from tests.forked import call_coatcheck, fork
from tests.processes import PATIENCE, free_port

_TARGET = "tests.chaos.app:server"


@dataclass(frozen=True)
class Where:
    """What a node is given: its store, what lies between them, and a folder to write in."""

    store: str
    network: Network | None
    folder: Path


class Node:
    """One process after the other, in the same place."""

    def __init__(self, name: str, slots: int, where: Where, history: History) -> None:
        """`slots` is how many tasks it runs at once."""
        self.name, self.slots, self.network = name, slots, where.network
        self._store, self._folder, self._history = where.store, where.folder, history
        self._process: Served | None = None
        self._is_ready = asyncio.Event()
        self._is_closing = False
        self._is_killed = False
        self._pause = 0.0
        self.is_stopped = False
        self._life = asyncio.create_task(self._live())

    @property
    def is_server(self) -> bool:
        return False

    @property
    def url(self) -> str:
        raise AssertionError("it serves nobody")

    @property
    def pid(self) -> int:
        """The process that is there now; 0: none is."""
        return self._process.pid if self._process else 0

    @property
    def beats(self) -> int:
        return beats_of(self._folder, self.pid)

    async def ready(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._is_ready.wait()

    def kill(self, pause: float) -> None:
        """End the process at once; the next one comes after a pause."""
        self._is_killed, self._pause = True, pause
        self._is_ready.clear()
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Let the process stand still."""
        self.is_stopped = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.is_stopped = False
        self._signal(signal.SIGCONT)

    async def close(self) -> None:
        """Ask the process to end, and see that it ends well."""
        self._is_closing = True
        await self.ready()
        self._signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await self._life

    async def clean_up(self) -> None:
        """Leave nothing behind, however it came to that."""
        self._is_closing = self._is_killed = True
        while not self._life.done():
            self._signal(signal.SIGKILL)
            await asyncio.wait((self._life,), timeout=1.0)

    def words(self) -> list[str]:
        """Return what the present process said."""
        return self._process.said if self._process else []

    def _signal(self, number: signal.Signals) -> None:
        self._history.log(self.name, self.pid, number.name)
        if self._process:
            self._process.signal(number)

    async def _live(self) -> None:
        while not self._is_closing:
            code = await self._live_once()
            self._history.log(self.name, "has ended with", code)
            is_expected = (code == -signal.SIGKILL and self._is_killed) or (code == 0 and self._is_closing)
            if self._is_ready.is_set() and not is_expected:
                self._history.wrong(self.name, "ended by itself with", code, *self.words()[-20:])
            self._is_ready.clear()
            self._is_killed = False
            await asyncio.sleep(max(self._pause, 0.1))

    async def _live_once(self) -> int:
        command = [*self._command(), _TARGET, "--store", self._store, "--concurrency", str(self.slots)]
        more = {FOLDER_VARIABLE: str(self._folder)}
        process, says = await fork(call_coatcheck, command, ROOT, environment(self._folder, **more), stream=2)
        self._process = Served(process, says)
        with suppress(AssertionError, OSError):  # it ended before it was ready
            await self._until_ready(self._process)
            self._is_ready.set()
            self._history.log(self.name, self.pid, "is ready")
        code = await self._process.ended(within=86_400)
        with (self._folder / f"{self.name}.log").open("a") as log:
            log.writelines(f"{self.pid} {line}\n" for line in self.words())
        await self._process.clean_up()
        return code

    def _command(self) -> list[str]:
        return ["worker"]

    async def _until_ready(self, process: Served) -> None:
        await process.says("", having="Ready for tasks")


class Server(Node):
    def __init__(self, name: str, slots: int, where: Where, history: History) -> None:
        self._port = free_port()
        super().__init__(name, slots, where, history)

    @property
    def is_server(self) -> bool:
        return True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def _command(self) -> list[str]:
        return ["serve", "--http", f"127.0.0.1:{self._port}"]

    async def _until_ready(self, process: Served) -> None:
        await process.serves()
