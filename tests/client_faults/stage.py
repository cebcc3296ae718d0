"""One cell of the matrix: a server, a network, a client program, what to do to them, and what must come of it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.client_faults.app import BEGAN
from tests.client_faults.gate import Gate
from tests.client_faults.host import Host
from tests.client_faults.processes import Child
from tests.client_faults.program import Errand, Mode, Target, main, run
from tests.client_faults.proxy import Fault, Proxy

NEWER: Mode = "2026-07-28"
OLDER: Mode = "2025-11-25"
GENERATIONS = (NEWER, OLDER)
QUESTIONS = ("Again?", "Again?", "Who?")
"""One that is asked twice, and so has two answers, and another one."""


class Victim(StrEnum):
    """Who is killed."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"


class Runner(Child):
    """The client program in a process of its own."""

    def __init__(self, errand: Errand) -> None:
        super().__init__(main, errand)
        self.errand = errand


class Stage:
    """Client programs, and what they leave."""

    def __init__(self, gate: Gate, folder: Path, mode: Mode) -> None:
        self.gate = gate
        self.mode: Mode = mode
        self._folder, self._log = folder, folder / "log.txt"
        self._runners: list[Runner] = []
        self._runs: list[asyncio.Task[None]] = []
        self.has_lost_server = False

    def errand(self, target: Target, *questions: str, **more: Any) -> Errand:
        """Return a call that asks these questions; without any, one that just works."""
        arguments: dict[str, Any] = {"log": str(self._log), "gate": self.gate.port}
        if questions:
            arguments["questions"] = list(questions)
        tool = "interview" if questions else "work"
        return Errand(target, self.mode, self._folder, self.gate.port, tool, arguments, **more)

    def here(self, errand: Errand) -> asyncio.Task[None]:
        """Run the program in this process."""
        self._runs.append(asyncio.create_task(run(errand)))
        return self._runs[-1]

    def apart(self, errand: Errand) -> Runner:
        """Run it in one that can be killed."""
        self._runners.append(Runner(errand))
        return self._runners[-1]

    def check(self, errand: Errand, *, asked: Sequence[str] | None = None) -> None:
        """See that a call was carried out once, each of its questions answered once, and its result delivered once.

        `asked`: what the person was asked, if that is more than the questions.
        """
        questions: list[str] = errand.arguments.get("questions", [])
        expected = [f"answer {number + 1}" for number in range(len(questions))] if questions else [0, 1, 2]
        notebook = errand.notebook
        assert [json.loads(line) for line in notebook.lines("delivered")] == [expected]
        assert notebook.lines("answered") == questions
        assert notebook.lines("asked") == (questions if asked is None else list(asked))
        tasks, steps = self._done()
        assert len(tasks) == 1, "it was started twice"
        assert set(steps) == ({"0", "1"} if questions else {"0", "1", "2"})
        # What was under way when its server was killed is done again.
        assert steps.total() <= len(steps) + (1 if self.has_lost_server else 0)

    async def clean_up(self) -> None:
        for runner in self._runners:
            runner.end()
        for task in self._runs:
            task.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)

    def _done(self) -> tuple[set[str], Counter[str]]:
        """Return which tasks have begun, and how often each step was taken."""
        lines = [line.split(" ", 1) for line in self._log.read_text().splitlines()]
        began = {rest for word, rest in lines if word == BEGAN}
        return began, Counter(rest for word, rest in lines if word == "step")


class Served(Stage):
    """A stage with a server, and a network between it and the programs."""

    def __init__(self, host: Host, proxy: Proxy, gate: Gate, folder: Path, mode: Mode) -> None:
        super().__init__(gate, folder, mode)
        self.host, self.proxy = host, proxy

    def call(self, *questions: str, **more: Any) -> Errand:
        """Return a call that asks these questions, of this server."""
        return self.errand(self.proxy.url, *questions, **more)

    async def kill(self, victim: Victim, runner: Runner, trap: Fault | None = None) -> Runner:
        """Kill the server, the program, or both, and start again what was killed; return the program as it is now.

        A `trap` that holds a connection lets it break in between.
        """
        if victim is not Victim.CLIENT:
            await self.end_server()
        if victim is not Victim.SERVER:
            runner.end()
        if trap:
            trap.spring()
        if victim is not Victim.CLIENT:
            await self.start_server()
        return runner if victim is Victim.SERVER else self.apart(runner.errand.again())

    async def end_server(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the server; nobody listens in its place."""
        self.has_lost_server = True
        self.proxy.refuse()
        await asyncio.to_thread(self.host.end, number)

    async def start_server(self) -> None:
        await asyncio.to_thread(self.host.start)
        self.proxy.upstream = self.host.port
        await self.proxy.listen()
